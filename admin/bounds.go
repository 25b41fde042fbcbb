package admin

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"graphql-limit-count/decorations"
)

// Bounds of what one write may store, where APISIX has none. They hold for writes through this
// endpoint only: a decoration that APISIX's own Admin API has put into a shared store counts
// whatever its size, as leaving it out would make queries cheaper.
const (
	// maxFieldPath is in bytes, maxSegments the names in it: a request is refused when its
	// selections are nested more than 500 deep, and each name costs memory in every runner.
	maxFieldPath = 4096
	maxSegments  = 128
	// maxArguments bounds each of the two lists, maxArgument each of their items, in bytes.
	maxArguments = 256
	maxArgument  = 256
	// maxLabels bounds how many labels there are, maxLabelKey each key, in bytes.
	maxLabels   = 64
	maxLabelKey = 256
	// maxPerService bounds the decorations of a service; as many fit into one document.
	// Writers that race each other can pass it by their number.
	maxPerService = decorations.MaxDecorations
)

const (
	memberAddArguments = "add_arguments"
	memberMulArguments = "mul_arguments"
)

// validServiceID is what APISIX allows ids to be.
var validServiceID = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// checkServiceID refuses what cannot be a service's id, where no decoration is validated that
// holds it.
func checkServiceID(id string) error {
	if validServiceID.MatchString(id) {
		return nil
	}
	return refuse(http.StatusBadRequest,
		"invalid service id: it must be 1 to 64 letters, digits, points, dashes or underscores")
}

// checkWritten validates a whole decoration that is about to be written, with id and
// service_id. The error's text is APISIX's or, about a bound that APISIX does not have, reads
// like it.
func checkWritten(object map[string]any) error {
	if err := checkDecoration(object); err != nil {
		return err
	}
	fieldPath, _ := object[memberFieldPath].(string)
	if n := len(fieldPath); n > maxFieldPath {
		return beyond(memberFieldPath, "string too long, expected at most %d, got %d", maxFieldPath, n)
	}
	if n := strings.Count(fieldPath, ".") + 1; n > maxSegments {
		return beyond(memberFieldPath, "too many names, expected at most %d, got %d", maxSegments, n)
	}
	for _, member := range []string{memberAddArguments, memberMulArguments} {
		if err := checkArguments(member, object[member]); err != nil {
			return err
		}
	}
	labels, _ := object[memberLabels].(map[string]any)
	if n := len(labels); n > maxLabels {
		return beyond(memberLabels, "too many labels, expected at most %d, got %d", maxLabels, n)
	}
	for key := range labels {
		if n := len(key); n > maxLabelKey {
			return beyond(memberLabels, "key too long, expected at most %d, got %d", maxLabelKey, n)
		}
	}
	return nil
}

func checkArguments(member string, value any) error {
	arguments, _ := value.([]any)
	if n := len(arguments); n > maxArguments {
		return beyond(member, "too many items, expected at most %d, got %d", maxArguments, n)
	}
	for i, argument := range arguments {
		if text, _ := argument.(string); len(text) > maxArgument {
			// Items are counted from 1, as APISIX does.
			return beyond(member, "failed to validate item %d: string too long, expected at most %d, got %d", i+1, maxArgument, len(text))
		}
	}
	return nil
}

func beyond(member, format string, values ...any) error {
	return fmt.Errorf("invalid configuration: property %q validation failed: "+format, append([]any{member}, values...)...)
}

// checkRoom refuses a further decoration of a service that has as many as it may have.
func checkRoom(records []Record, id string) error {
	if len(records) < maxPerService {
		return nil
	}
	for _, record := range records {
		if record.ID == id {
			return nil
		}
	}
	return refuse(http.StatusBadRequest, fmt.Sprintf("the service has %d decorations, which is the most that it may have", len(records)))
}

// reservedID refuses an id whose path means something else. A decoration that has it
// already, in a store shared with APISIX, can still be changed and deleted.
const reservedID = "the id " + checkName + " is reserved"

func checkReserved(records []Record, id string) error {
	if id != checkName {
		return nil
	}
	for _, record := range records {
		if record.ID == id {
			return nil
		}
	}
	return refuse(http.StatusBadRequest, reservedID)
}
