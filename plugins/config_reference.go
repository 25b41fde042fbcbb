package plugins

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"graphql-limit-count/internal/secret"
)

// Secrets gives the text of a reference that begins with $aes://. The error says why it
// cannot, and shows neither. It is asked whenever a configuration is read.
type Secrets func(reference string) (string, error)

var (
	// environmentSchemes begin a reference to an environment variable, as APISIX spells it.
	environmentSchemes = []string{"$env://", "$ENV://"}
	// managerSchemes begin a reference to a secret manager that APISIX knows.
	managerSchemes = []string{"$secret://", "$SECRET://"}
)

// ownSecrets are the environment variables with the runner's own credentials. Who may write
// routes must not read them through a configuration.
var ownSecrets = []string{
	"GRAPHQL_LIMIT_COUNT_ADMIN_KEY", "GRAPHQL_LIMIT_COUNT_ADMIN_VIEWER_KEY",
	"GRAPHQL_LIMIT_COUNT_APISIX_ADMIN_KEY", "GRAPHQL_LIMIT_COUNT_ETCD_PASSWORD",
}

// resolver puts in the place of references what they stand for, so that no credential
// need stand in APISIX's store.
type resolver struct {
	secrets Secrets // nil: there is no keyring
	// resolved are the members that had a reference: what it stands for must not be shown.
	resolved map[string]bool
	faults   []string
	// locked says that a secret could not be read, which may be cured without a change of
	// the configuration.
	locked bool
}

func newResolver(secrets Secrets) *resolver {
	return &resolver{secrets: secrets, resolved: map[string]bool{}}
}

// resolve returns a copy of the members in which no text is a reference. Faults are in
// order afterwards.
func (r *resolver) resolve(members map[string]any) map[string]any {
	out := make(map[string]any, len(members))
	for name, member := range members {
		out[name] = mapTexts(member, func(text string) string { return r.text(name, text) })
	}
	slices.Sort(r.faults)
	return out
}

// text returns what a text of the member stands for: itself, unless it is a reference. A
// variable's value may be a reference to a secret.
func (r *resolver) text(name, text string) string {
	if variable, ok := cutScheme(text, environmentSchemes); ok {
		r.resolved[name] = true
		if text = r.variable(name, variable); text == "" {
			return ""
		}
	}
	if _, ok := cutScheme(text, managerSchemes); ok {
		r.fault(name, "refers to a secret manager, which only APISIX itself can ask: use $env:// or $aes://")
		return ""
	}
	if secret.IsReference(text) {
		r.resolved[name] = true
		return r.decrypted(name, text)
	}
	return text
}

func (r *resolver) variable(name, variable string) string {
	if slices.Contains(ownSecrets, variable) {
		r.fault(name, fmt.Sprintf("refers to the environment variable %q, which is this plugin's own", variable))
		return ""
	}
	value := os.Getenv(variable)
	if value == "" {
		r.fault(name, fmt.Sprintf("refers to the environment variable %q, which is not set", variable))
	}
	return value
}

// decrypted returns the text of an encrypted reference. Other members than those that hold
// credentials may have none: an error message, a header or a counter's key would show the
// secret to whoever may write a route, or only use it.
func (r *resolver) decrypted(name, reference string) string {
	if !slices.Contains(SecretFields(), name) {
		r.fault(name, "holds an encrypted text, which is allowed only in "+strings.Join(SecretFields(), ", "))
		return ""
	}
	if r.secrets == nil {
		r.fault(name, "holds an encrypted text, but there is no keyring: --keyring is not given")
		return ""
	}
	text, err := r.secrets(reference)
	if err != nil {
		r.locked = true
		r.fault(name, "holds an encrypted text that cannot be read: "+err.Error())
	}
	return text
}

func (r *resolver) fault(name, what string) {
	if sentence := fmt.Sprintf("property %q %s", name, what); !slices.Contains(r.faults, sentence) {
		r.faults = append(r.faults, sentence)
	}
}

// cutScheme returns the text after one of the schemes.
func cutScheme(text string, schemes []string) (rest string, found bool) {
	for _, scheme := range schemes {
		if rest, found = strings.CutPrefix(text, scheme); found {
			return rest, true
		}
	}
	return "", false
}

// mapTexts applies change to all texts in a decoded JSON value, names apart.
func mapTexts(value any, change func(string) string) any {
	switch v := value.(type) {
	case string:
		return change(v)
	case []any:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = mapTexts(item, change)
		}
		return items
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, member := range v {
			members[name] = mapTexts(member, change)
		}
		return members
	default:
		return value
	}
}
