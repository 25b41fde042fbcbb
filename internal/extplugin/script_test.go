package extplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"

	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
)

// script is the configuration of a plugin that does what it says.
type script struct {
	SetPath     string              `json:"set_path"`
	SetHeaders  map[string]string   `json:"set_headers"`
	DelHeaders  []string            `json:"del_headers"`
	SetArgs     map[string][]string `json:"set_args"`
	DelArgs     []string            `json:"del_args"`
	RespHeaders map[string][]string `json:"resp_headers"`

	Prefetch bool     `json:"prefetch"` // where the request can
	Vars     []string `json:"vars"`     // tell these in the answer
	Tell     []string `json:"tell"`     // and these: body, method, path, src_ip, header, args

	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers"`
	Body    string              `json:"body"`

	Panic   string `json:"panic"`
	Degrade bool   `json:"degrade"`
}

func (s *script) AllowDegradation() bool { return s.Degrade }

type scriptPlugin struct {
	plugin.DefaultPlugin
	name string
}

func (p *scriptPlugin) Name() string { return p.name }

func (p *scriptPlugin) ParseConf(in []byte) (any, error) {
	s := &script{}
	if len(in) == 0 {
		return nil, errors.New("empty configuration")
	}
	return s, json.Unmarshal(in, s)
}

func (p *scriptPlugin) RequestFilter(conf any, w http.ResponseWriter, r pkghttp.Request) {
	s := conf.(*script)
	s.change(r)
	if s.Panic != "" {
		w.WriteHeader(http.StatusTeapot)
		panic(s.Panic)
	}
	if len(s.Vars)+len(s.Tell) > 0 {
		s.answer(w, r)
		return
	}
	for name, values := range s.Headers {
		for _, value := range values {
			w.Header().Add(name, value)
		}
	}
	if s.Status != 0 {
		w.WriteHeader(s.Status)
	}
	if s.Body != "" {
		fmt.Fprint(w, s.Body)
	}
}

func (s *script) change(r pkghttp.Request) {
	if s.SetPath != "" {
		r.SetPath([]byte(s.SetPath))
	}
	for name, value := range s.SetHeaders {
		r.Header().Set(name, value)
	}
	for _, name := range s.DelHeaders {
		r.Header().Del(name)
	}
	for name, values := range s.SetArgs {
		r.Args()[name] = values
	}
	for _, name := range s.DelArgs {
		r.Args().Del(name)
	}
	for name, values := range s.RespHeaders {
		for _, value := range values {
			r.RespHeader().Add(name, value)
		}
	}
}

// answer writes what the request tells as JSON.
func (s *script) answer(w http.ResponseWriter, r pkghttp.Request) {
	told := map[string]any{}
	tell := func(name string, value []byte, err error) {
		switch {
		case err != nil:
			told[name] = "error: " + err.Error()
		case value == nil:
			told[name] = nil
		default:
			told[name] = string(value)
		}
	}
	if p, ok := r.(interface {
		Prefetch(body bool, vars ...string) error
	}); ok && s.Prefetch {
		if err := p.Prefetch(len(s.Tell) > 0, s.Vars...); err != nil {
			told["prefetch"] = err.Error()
		}
	}
	for _, name := range s.Vars {
		value, err := r.Var(name)
		tell(name, value, err)
	}
	for _, what := range s.Tell {
		switch what {
		case "body":
			value, err := r.Body()
			tell(what, value, err)
		case "body_sum":
			value, err := r.Body()
			tell(what, []byte(bodySum(value)), err)
		case "method":
			told[what] = r.Method()
		case "path":
			told[what] = string(r.Path())
		case "src_ip":
			told[what] = r.SrcIP().String()
		case "header":
			told[what] = r.Header().View()
		case "args":
			told[what] = r.Args()
		}
	}
	text, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	if _, err := w.Write(text); err != nil {
		panic(err)
	}
}

func bodySum(body []byte) string {
	return fmt.Sprintf("%d:%08x", len(body), crc32.ChecksumIEEE(body))
}

// fixedAnswers answers from memory and notes what it was asked.
type fixedAnswers struct {
	vars    map[string]string
	body    []byte
	bodyErr error
	asked   []string
}

func (a *fixedAnswers) Var(name string) ([]byte, bool) {
	a.asked = append(a.asked, name)
	value, ok := a.vars[name]
	return []byte(value), ok
}

func (a *fixedAnswers) Body() ([]byte, error) {
	a.asked = append(a.asked, "(body)")
	return a.body, a.bodyErr
}

// funcPlugin is a plugin made of functions; those left out do nothing.
type funcPlugin struct {
	plugin.DefaultPlugin
	name   string
	parse  func([]byte) (any, error)
	filter func(conf any, w http.ResponseWriter, r pkghttp.Request)
}

func (p *funcPlugin) Name() string { return p.name }

func (p *funcPlugin) ParseConf(in []byte) (any, error) {
	if p.parse == nil {
		return nil, nil
	}
	return p.parse(in)
}

func (p *funcPlugin) RequestFilter(conf any, w http.ResponseWriter, r pkghttp.Request) {
	if p.filter != nil {
		p.filter(conf, w, r)
	}
}
