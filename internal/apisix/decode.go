package apisix

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxPort is the highest TCP port.
const maxPort = 65535

// scalar is a JSON string or number as text. APISIX accepts both for ids and
// writes both for indexes (etcd's gateway quotes 64-bit integers).
type scalar string

// UnmarshalJSON implements json.Unmarshaler; null leaves the value empty.
func (s *scalar) UnmarshalJSON(raw []byte) error {
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(s))
	}
	var n json.Number
	if err := json.Unmarshal(raw, &n); err != nil {
		return errors.New("neither a string nor a number")
	}
	*s = scalar(n)
	return nil
}

// seconds reads a time, 0 where it is none.
func (s scalar) seconds() int64 {
	if whole, err := strconv.ParseInt(string(s), 10, 64); err == nil {
		return max(whole, 0)
	}
	const furthest = 1 << 53 // beyond, floating point has no whole seconds
	fraction, err := strconv.ParseFloat(string(s), 64)
	if err != nil || !(fraction > 0 && fraction < furthest) {
		return 0
	}
	return int64(fraction)
}

// record is one stored object around its value. APISIX 3 answers with the record
// itself and lists with list and total, APISIX 2 puts both below node.
type record struct {
	Key           string          `json:"key"`
	Value         json.RawMessage `json:"value"`
	CreatedIndex  scalar          `json:"createdIndex"`
	ModifiedIndex scalar          `json:"modifiedIndex"`
	Node          *record         `json:"node"`
	Nodes         json.RawMessage `json:"nodes"`
	List          json.RawMessage `json:"list"`
	Total         scalar          `json:"total"`
}

// wireObject holds the members that services, routes and upstreams have in common
// here; which of them mean something depends on the object.
type wireObject struct {
	ID             scalar        `json:"id"`
	CreateTime     scalar        `json:"create_time"`
	ServiceID      scalar        `json:"service_id"`
	Upstream       *wireUpstream `json:"upstream"`
	UpstreamID     scalar        `json:"upstream_id"`
	PluginConfigID scalar        `json:"plugin_config_id"`
	Plugins        Attachments   `json:"plugins"`
}

type wireUpstream struct {
	Scheme       string          `json:"scheme"`
	Nodes        json.RawMessage `json:"nodes"`
	PassHost     string          `json:"pass_host"`
	UpstreamHost string          `json:"upstream_host"`
}

// identity is what a listing needs of an object.
type identity struct {
	ID         scalar `json:"id"`
	CreateTime scalar `json:"create_time"`
}

// decodeRecord reads the answer to a GET of one object.
func decodeRecord(body []byte) (record, error) {
	var rec record
	if err := json.Unmarshal(body, &rec); err != nil {
		return record{}, err
	}
	if rec.Node != nil && len(rec.Value) == 0 {
		rec = *rec.Node
	}
	if first(rec.Value) != '{' {
		return record{}, errors.New("the answer holds no value object")
	}
	return rec, nil
}

// decodeList reads the answer to a GET of a collection. total is 0 where the
// answer does not say how many there are.
func decodeList(body []byte) (records []record, total int, err error) {
	var outer record
	if err := json.Unmarshal(body, &outer); err != nil {
		return nil, 0, err
	}
	list := outer.List
	if len(list) == 0 && outer.Node != nil {
		list = outer.Node.Nodes
	}
	switch first(list) {
	case '[':
		if err := json.Unmarshal(list, &records); err != nil {
			return nil, 0, err
		}
	case '{': // an empty Lua table does not know whether it is a list
		var members map[string]json.RawMessage
		if err := json.Unmarshal(list, &members); err != nil {
			return nil, 0, err
		}
		if len(members) != 0 {
			return nil, 0, errors.New("the list is an object with members")
		}
	default:
		return nil, 0, errors.New("the answer holds no list")
	}
	if outer.Total != "" {
		if total, err = strconv.Atoi(string(outer.Total)); err != nil {
			return nil, 0, fmt.Errorf("total %q is not an integer", outer.Total)
		}
	}
	return records, total, nil
}

// first returns the first byte of a JSON value that encoding/json has cut out.
func first(raw json.RawMessage) byte {
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// id returns the object's id: the last segment of the stored key, which is what
// the Admin API goes by, or the id member where an answer has no key.
func (r record) id(member scalar) string {
	if r.Key == "" {
		return string(member)
	}
	return r.Key[strings.LastIndexByte(r.Key, '/')+1:]
}

func (r record) incarnation(createTime scalar) string {
	if r.CreatedIndex != "" {
		return string(r.CreatedIndex)
	}
	if createTime != "" {
		return "t" + string(createTime)
	}
	return ""
}

func (w *wireUpstream) upstream() (*Upstream, error) {
	if w == nil {
		return nil, nil
	}
	nodes, err := decodeNodes(w.Nodes)
	if err != nil {
		return nil, err
	}
	return &Upstream{
		Scheme:       cmp.Or(w.Scheme, SchemeHTTP),
		Nodes:        nodes,
		PassHost:     cmp.Or(w.PassHost, PassHostPass),
		UpstreamHost: w.UpstreamHost,
	}, nil
}

// decodeNodes reads both forms of an upstream's nodes: {"host:port": weight} and
// [{"host": h, "port": p, "weight": w, "priority": n}].
func decodeNodes(raw json.RawMessage) ([]Node, error) {
	switch first(raw) {
	case '{':
		return decodeNodeMap(raw)
	case '[':
		return decodeNodeArray(raw)
	case 0, 'n':
		return nil, nil
	default:
		return nil, errors.New("nodes is neither an object nor an array")
	}
}

func decodeNodeMap(raw json.RawMessage) ([]Node, error) {
	var weights map[string]float64
	if err := json.Unmarshal(raw, &weights); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	nodes := make([]Node, 0, len(weights))
	for addr, weight := range weights {
		node, err := parseAddr(addr)
		if err != nil {
			return nil, err
		}
		node.Weight = integer(weight)
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	return nodes, nil
}

func decodeNodeArray(raw json.RawMessage) ([]Node, error) {
	var entries []struct {
		Host     string  `json:"host"`
		Port     float64 `json:"port"`
		Weight   float64 `json:"weight"`
		Priority float64 `json:"priority"`
	}
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	nodes := make([]Node, 0, len(entries))
	for i, e := range entries {
		if e.Host == "" {
			return nil, fmt.Errorf("node %d has no host", i+1)
		}
		if e.Port < 0 || e.Port > maxPort || e.Port != math.Trunc(e.Port) {
			return nil, fmt.Errorf("node %q: port is not in 1..%d", e.Host, maxPort)
		}
		nodes = append(nodes, Node{
			Host:     unbracket(e.Host),
			Port:     int(e.Port),
			Weight:   integer(e.Weight),
			Priority: integer(e.Priority),
		})
	}
	return nodes, nil
}

// integer brings a configured number into the range of an int32, so that no
// number in an answer is a conversion with an undefined result.
func integer(f float64) int {
	return int(max(math.MinInt32, min(f, math.MaxInt32)))
}

// parseAddr reads a key of the map form: "host", "host:port", "[v6]", "[v6]:port"
// or a bare IPv6 address, which has no port.
func parseAddr(addr string) (Node, error) {
	host, port := addr, ""
	if strings.HasPrefix(addr, "[") {
		end := strings.LastIndexByte(addr, ']')
		if end < 0 {
			return Node{}, fmt.Errorf("node %q: no closing bracket", addr)
		}
		host, port = addr[:end+1], addr[end+1:]
		if port != "" && port[0] != ':' {
			return Node{}, fmt.Errorf("node %q: text after the bracket", addr)
		}
	} else if i := strings.IndexByte(addr, ':'); i >= 0 && i == strings.LastIndexByte(addr, ':') {
		host, port = addr[:i], addr[i:]
	}
	node := Node{Host: unbracket(host)}
	if node.Host == "" {
		return Node{}, fmt.Errorf("node %q has no host", addr)
	}
	if port == "" {
		return node, nil
	}
	n, err := strconv.ParseUint(port[1:], 10, 16)
	if err != nil || n == 0 {
		return Node{}, fmt.Errorf("node %q: port is not in 1..%d", addr, maxPort)
	}
	node.Port = int(n)
	return node, nil
}

func unbracket(host string) string {
	if len(host) >= 2 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}
