package etcd

import "context"

// Blank tells whether APISIX has no configuration at all under the client's prefix: there is
// nothing, or only what APISIX writes by itself. Such an etcd has lost its data, or the prefix
// is a wrong one; that a key is missing there says nothing.
func (c *Client) Blank(ctx context.Context) (bool, error) { return c.blank(ctx) }
