package apisix

import (
	"bytes"
	"encoding/json"
)

// PluginName is the runner's plugin that configurations are looked for, as it
// stands in the conf list of an ext-plugin-*.
const PluginName = "graphql-limit-count"

// Attachment names the APISIX plugin that a configuration of the runner's plugin
// stands in. Empty: it is not known which one.
type Attachment string

// The attachments before a request is proxied.
const (
	PreReq  Attachment = "ext-plugin-pre-req"
	PostReq Attachment = "ext-plugin-post-req"
)

// Attachments tells what stands among the plugins of one object of APISIX.
type Attachments uint8

const (
	hasPreReq Attachments = 1 << iota
	runsPreReq
	hasPostReq
	runsPostReq
	hasPlugins
)

// Has reports whether the attachment is configured on the object. APISIX merges
// plugins by name, so one that is hides the same one of a less specific object
// whatever it lists.
func (a Attachments) Has(at Attachment) bool {
	switch at {
	case PreReq:
		return a&hasPreReq != 0
	case PostReq:
		return a&hasPostReq != 0
	}
	return false
}

// Runs reports whether the attachment is configured on the object and lists
// graphql-limit-count.
func (a Attachments) Runs(at Attachment) bool {
	switch at {
	case PreReq:
		return a&runsPreReq != 0
	case PostReq:
		return a&runsPostReq != 0
	}
	return false
}

// Any reports whether the object has any plugin at all.
func (a Attachments) Any() bool { return a&hasPlugins != 0 }

// UnmarshalJSON reads a plugins object. It never fails: a plugin that cannot be
// read is APISIX's to complain of, and must not make a service or a route look as
// if it could not be read.
func (a *Attachments) UnmarshalJSON(raw []byte) error {
	*a = 0
	if first(raw) != '{' {
		return nil
	}
	// The value is valid JSON, so a quote in it is there because of a member.
	if bytes.IndexByte(raw, '"') >= 0 {
		*a |= hasPlugins
	}
	if !bytes.Contains(raw, attachmentStart) && !bytes.Contains(raw, escapeStart) {
		return nil // of a fleet's objects most have none, and a search is quick
	}
	var plugins struct {
		PreReq  json.RawMessage `json:"ext-plugin-pre-req"`
		PostReq json.RawMessage `json:"ext-plugin-post-req"`
	}
	if json.Unmarshal(raw, &plugins) == nil {
		*a |= attached(plugins.PreReq, hasPreReq, runsPreReq)
		*a |= attached(plugins.PostReq, hasPostReq, runsPostReq)
	}
	return nil
}

// What the names of attachments begin with, and what does where they are escaped.
var (
	attachmentStart = []byte(`"ext-plugin-p`)
	escapeStart     = []byte(`\u`)
)

// attached reads one ext-plugin-*. Only an object counts, as in APISIX.
func attached(raw json.RawMessage, has, runs Attachments) Attachments {
	if first(raw) != '{' {
		return 0
	}
	var plugin struct {
		Conf []struct {
			Name string `json:"name"`
		} `json:"conf"`
	}
	if json.Unmarshal(raw, &plugin) != nil {
		return has
	}
	for _, listed := range plugin.Conf {
		if listed.Name == PluginName {
			return has | runs
		}
	}
	return has
}
