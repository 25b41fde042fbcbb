package plugins_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"graphql-limit-count/introspect"
)

// TestIntrospectionTTL: an old schema serves on while it is fetched again, once its age is the
// configuration's; the next requests are costed by the new one.
func TestIntrospectionTTL(t *testing.T) {
	up := startUpstream(t)
	shop := &behaviour{schema: shopSDL}
	up.set("ttl", shop)
	now := newClock()
	source := introspect.New(introspect.Config{Now: now.Now, Logger: zap.NewNop()})
	t.Cleanup(source.Close)
	s := startStack(t, stackConfig{models: productsModel(t), schemas: source})
	conf := `{` + plenty + `,"cost_strategy":"node_quantifier","introspection_endpoint":"` + up.URL + `/ttl"`
	forever, minute := s.bound(t, "r", "s", conf+`}`), s.bound(t, "r", "s", conf+`,"introspection_ttl":60}`)
	cost := func(route *caller) string {
		return route.send(graphQL("{products(first:50){id}}")).passes().header["X-Graphql-Query-Cost"]
	}
	require.Equal(t, "2", cost(minute)) // one list of products
	up.set("ttl", &behaviour{schema: `schema { query: Root } type Root { products: ID }`})

	now.advance(time.Minute - 1)
	require.Equal(t, "2", cost(minute))
	now.advance(time.Hour)
	require.Equal(t, "2", cost(forever))
	require.Len(t, shop.introspections(), 1)
	require.Equal(t, "2", cost(minute), "the old one serves the request that finds it old")
	require.Eventually(t, func() bool { return source.Known("s").HasType("Root") }, settled, time.Millisecond)
	require.Equal(t, "1", cost(minute))
	require.Equal(t, "1", cost(forever), "both have one schema")
}

// TestFractionsOfASecondCount: as in every span of the configuration.
func TestFractionsOfASecondCount(t *testing.T) {
	schemas := &askedSchemas{}
	s := startStack(t, stackConfig{models: productsModel(t), schemas: schemas})
	conf := `{` + plenty + `,"cost_strategy":"node_quantifier"`
	s.bound(t, "r", "s", conf+`}`).send(graphQL("{a}"))
	s.bound(t, "r", "s", conf+`,"introspection_ttl":0}`).send(graphQL("{a}"))
	s.bound(t, "r", "s", conf+`,"introspection_ttl":1.5}`).send(graphQL("{a}"))
	var ages []time.Duration
	for _, asked := range schemas.asked {
		ages = append(ages, asked.TTL)
	}
	require.Equal(t, []time.Duration{0, 0, 1500 * time.Millisecond}, ages)
}
