package plugins

import "slices"

// fallbackVariable is what a key falls back to: the client's address.
const fallbackVariable = "remote_addr"

// KeySource resolves a configuration's counter key for a request.
type KeySource struct {
	template *Template // nil for a constant
	constant string
}

// NewKeySource returns the source for a key_type and a key. A key type other than
// "var" and "var_combination" is "constant".
func NewKeySource(keyType, key string) *KeySource {
	switch keyType {
	case KeyTypeVar:
		return &KeySource{template: variableTemplate(key)}
	case KeyTypeVarCombination:
		return &KeySource{template: ParseTemplate(key)}
	default:
		return &KeySource{constant: key}
	}
}

// Names returns the names of the variables that Resolve may look up, each once, the
// fallback included.
func (s *KeySource) Names() []string {
	if s.template == nil {
		return nil
	}
	names := s.template.Names()
	if slices.Contains(names, fallbackVariable) {
		return names
	}
	return append(names, fallbackVariable)
}

// Resolve returns the key for a request whose variables lookup tells. When none of
// the source's variables is present (an empty value is present) it is the client's
// address, so a counter is never shared by all who leave a header out.
func (s *KeySource) Resolve(lookup Lookup) string {
	if s.template == nil {
		return s.constant
	}
	if value, resolved := s.template.Resolve(lookup); resolved > 0 {
		return value
	}
	value, _ := lookup(fallbackVariable)
	return value
}
