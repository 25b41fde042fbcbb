package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The plugins that this gateway runs; the first two are also the attachment in the
// key of a PrepareConf.
const (
	preReq       = "ext-plugin-pre-req"
	postReq      = "ext-plugin-post-req"
	keyAuth      = "key-auth"
	proxyRewrite = "proxy-rewrite"
)

var supportedPlugins = map[string]bool{preReq: true, postReq: true, keyAuth: true, proxyRewrite: true}

// plugins are the parsed configurations of the plugins that this gateway runs; nil
// where there is none.
type plugins struct {
	preReq, postReq *extPlugin
	keyAuth         *keyAuthConf
	rewrite         *rewriteConf
}

// meta is APISIX's `_meta`, of which only disable is known here.
type meta struct {
	Meta struct {
		Disable bool `json:"disable"`
	} `json:"_meta"`
}

// extPlugin is the configuration of an ext-plugin-*.
type extPlugin struct {
	meta
	Conf             []namedConf `json:"conf"`
	AllowDegradation bool        `json:"allow_degradation"`
}

// namedConf is one plugin of the runner and its configuration.
type namedConf struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// keyAuthConf says where a client's key stands and whether the upstream sees it.
type keyAuthConf struct {
	meta
	Header          string `json:"header"`
	Query           string `json:"query"`
	HideCredentials bool   `json:"hide_credentials"`
}

// rewriteConf is proxy-rewrite, of which this gateway knows the uri only.
type rewriteConf struct {
	meta
	URI string `json:"uri"`
}

// parsePlugins checks the configurations that this gateway runs and leaves the others
// alone.
func parsePlugins(all map[string]any) (plugins, error) {
	var p plugins
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var err error
		switch name {
		case preReq:
			p.preReq, err = parseExtPlugin(all[name])
		case postReq:
			p.postReq, err = parseExtPlugin(all[name])
		case keyAuth:
			p.keyAuth = &keyAuthConf{Header: "apikey", Query: "apikey"}
			err = reencode(all[name], p.keyAuth)
		case proxyRewrite:
			p.rewrite, err = parseRewrite(all[name])
		}
		if err != nil {
			return plugins{}, badRequest("failed to check the configuration of plugin %s err: %v", name, err)
		}
	}
	return p, nil
}

func parseExtPlugin(conf any) (*extPlugin, error) {
	p := &extPlugin{}
	if err := reencode(conf, p); err != nil {
		return nil, err
	}
	members, _ := conf.(map[string]any)
	if _, given := members["conf"]; given && len(p.Conf) == 0 {
		return nil, errors.New(`property "conf" validation failed: expect array to have at least 1 items`)
	}
	for i, c := range p.Conf {
		if c.Name == "" || c.Value == nil {
			return nil, fmt.Errorf(`property "conf" validation failed: failed to validate item %d: name and value are required`, i+1)
		}
	}
	return p, nil
}

func parseRewrite(conf any) (*rewriteConf, error) {
	members, _ := conf.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name != "uri" && name != "_meta" {
			return nil, fmt.Errorf("the development gateway does not support %q", name)
		}
	}
	p := &rewriteConf{}
	if err := reencode(conf, p); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(p.URI, "/") || strings.Contains(p.URI, "$") {
		return nil, fmt.Errorf(`property "uri" validation failed: expect a path without variables, got %q`, p.URI)
	}
	return p, nil
}

// reencode reads a decoded JSON object into a struct.
func reencode(conf, to any) error {
	if _, ok := conf.(map[string]any); !ok {
		return errors.New("wrong type: expected object")
	}
	text, err := json.Marshal(conf)
	if err != nil {
		return err
	}
	err = json.Unmarshal(text, to)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("property %q validation failed: wrong type: expected %s, got %s", wrong.Field, wrong.Type, wrong.Value)
	}
	return err
}

// over is p where it has a configuration and base elsewhere: a route's plugins over
// its service's, a consumer's over both.
func (p plugins) over(base plugins) plugins {
	if p.preReq == nil {
		p.preReq = base.preReq
	}
	if p.postReq == nil {
		p.postReq = base.postReq
	}
	if p.keyAuth == nil {
		p.keyAuth = base.keyAuth
	}
	if p.rewrite == nil {
		p.rewrite = base.rewrite
	}
	return p
}

// on is p without the configurations that `_meta.disable` switches off. They count
// until after the merge: a route may switch its service's plugin off.
func (p plugins) on() plugins {
	if p.preReq != nil && p.preReq.Meta.Disable {
		p.preReq = nil
	}
	if p.postReq != nil && p.postReq.Meta.Disable {
		p.postReq = nil
	}
	if p.keyAuth != nil && p.keyAuth.Meta.Disable {
		p.keyAuth = nil
	}
	if p.rewrite != nil && p.rewrite.Meta.Disable {
		p.rewrite = nil
	}
	return p
}
