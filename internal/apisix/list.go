package apisix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// errListChanged says that no consistent listing could be had.
var errListChanged = errors.New("the list changed while it was read")

// Services lists every service there is, with ID and Incarnation only; read one
// with Service for the rest. The listing is whole or it is an error, and never
// ErrNotFound. It asks for all at once, which APISIX answers from one read of its
// store, and turns to pages only when the answer says that it is not all. Between
// pages a deletion can hide behind a creation, so before anything is destroyed
// because an id is missing here, confirm it with Service.
func (c *Client) Services(ctx context.Context) ([]Service, error) {
	list, err := c.services(ctx)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			err = errors.New("the collection of services does not exist")
		}
		return nil, fmt.Errorf("list services from APISIX's Admin API: %w", err)
	}
	return list, nil
}

func (c *Client) services(ctx context.Context) ([]Service, error) {
	all, total, err := c.servicePage(ctx, "/services")
	if err != nil || total <= len(all) {
		return all, err
	}
	for range maxListAttempts {
		all, err = c.servicePages(ctx)
		if !errors.Is(err, errListChanged) {
			break
		}
	}
	return all, err
}

// servicePages reads page after page and accepts the result only when every page
// named the same total and exactly that many services were seen.
func (c *Client) servicePages(ctx context.Context) ([]Service, error) {
	var all []Service
	seen := make(map[string]bool)
	want := -1
	for page := 1; page <= maxListPages; page++ {
		list, total, err := c.servicePage(ctx, fmt.Sprintf("/services?page=%d&page_size=%d", page, listPageSize))
		if err != nil {
			return nil, err
		}
		if want >= 0 && total != want {
			return nil, errListChanged
		}
		want = total
		for _, s := range list {
			if !seen[s.ID] {
				seen[s.ID] = true
				all = append(all, s)
			}
		}
		if len(all) >= want {
			break
		}
		if len(list) == 0 {
			return nil, errListChanged
		}
	}
	if len(all) != want {
		return nil, errListChanged
	}
	return all, nil
}

// servicePage reads one listing and the total that it names, 0 when it names none.
func (c *Client) servicePage(ctx context.Context, path string) ([]Service, int, error) {
	body, err := c.get(ctx, path, maxListBytes)
	if err != nil {
		return nil, 0, err
	}
	records, total, err := decodeList(body)
	if err != nil {
		return nil, 0, fmt.Errorf("decode the answer: %w", err)
	}
	list := make([]Service, 0, len(records))
	for i, rec := range records {
		var who identity
		if err := json.Unmarshal(rec.Value, &who); err != nil {
			return nil, 0, fmt.Errorf("decode entry %d of the answer: %w", i+1, err)
		}
		id := rec.id(who.ID)
		if id == "" {
			return nil, 0, fmt.Errorf("entry %d of the answer has no id", i+1)
		}
		list = append(list, Service{ID: id, Incarnation: rec.incarnation(who.CreateTime)})
	}
	return list, total, nil
}
