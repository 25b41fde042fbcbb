package decorations

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Format is a way of writing decorations down.
type Format string

// The formats that Read knows.
const (
	FormatAuto Format = "auto"
	FormatYAML Format = "yaml"
	FormatJSON Format = "json"
	FormatSDL  Format = "sdl"
	FormatKong Format = "kong"
)

// Formats are all formats, for messages.
var Formats = []Format{FormatAuto, FormatYAML, FormatJSON, FormatSDL, FormatKong}

// ReadOptions say what a text is.
type ReadOptions struct {
	// Format is the text's; empty is FormatAuto, which tells it by the name and the text.
	Format Format
	// Name is the file's name, empty or "-" when there is none.
	Name string
	// KongService is FromKong's service.
	KongService string
}

// Read reads decorations in any format. The notes say what those of another product could not
// be translated into; they are empty for YAML and JSON.
func Read(text []byte, options ReadOptions) (Set, []Note, error) {
	format := options.Format
	if format == "" || format == FormatAuto {
		format = detect(text, options.Name)
	}
	switch format {
	case FormatYAML, FormatJSON:
		set, err := Parse(text)
		return set, nil, err
	case FormatSDL:
		return FromSDL(text)
	case FormatKong:
		return FromKong(text, options.KongService)
	default:
		return Set{}, nil, fmt.Errorf("format %.40q is none of %v", format, Formats)
	}
}

// sdlNames are what files with SDL are called.
var sdlNames = []string{".graphql", ".graphqls", ".gql", ".sdl"}

// sdlStart is how SDL begins, after comments: a description or a definition's keyword, which
// no colon follows as it would in YAML.
var sdlStart = regexp.MustCompile(`^(?:[\s,]|#[^\n]*(?:\n|$))*(?:"|(?:extend|schema|type|interface|union|enum|input|scalar|directive)[\s@{])`)

// detect tells a text's format; FormatYAML stands for YAML and JSON.
func detect(text []byte, name string) Format {
	if slices.Contains(sdlNames, strings.ToLower(path.Ext(name))) {
		return FormatSDL
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if sdlStart.Match(text) {
		return FormatSDL
	}
	if document, err := readDocument(text); err == nil && isKong(document) {
		return FormatKong
	}
	return FormatYAML
}
