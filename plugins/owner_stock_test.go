package plugins

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// ownerOf says always the same, and what it was asked about.
type ownerOf struct {
	owner Owner
	asked []Place
}

func (o *ownerOf) Owner(at Place) Owner {
	o.asked = append(o.asked, at)
	return o.owner
}

// TestAStockRunnerKnowsNoAttachment, so that both are looked at.
func TestAStockRunnerKnowsNoAttachment(t *testing.T) {
	p, _ := newPlainPlugin(t)
	source := &ownerOf{owner: Owner{Kind: "plugin_config", ID: "7"}}
	p.options.Owners = source
	const conf = `{"count":1000000,"time_window":60,"remaining_header":"X-Left"}`
	for _, routeID := range []string{"r1", "r2"} {
		r := newPlainRequest("{a}")
		r.vars[varRouteID], r.vars[varServiceID] = routeID, "s"
		decideOn(t, p, conf, r)
		require.Equal(t, Place{Route: routeID, Service: "s"}, source.asked[len(source.asked)-1])
	}
	r := newPlainRequest("{a}")
	decideOn(t, p, conf, r)
	require.Equal(t, []string{"999997"}, r.resp["X-Left"], "all charge the plugin_config's counter")
}
