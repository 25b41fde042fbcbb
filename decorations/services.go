package decorations

import (
	"cmp"
	"fmt"
	"slices"
)

// The members of a document of several services.
const (
	memberServices   = "services"
	memberSchemaFile = "schema_file"
)

// Service is what a document of several services says of one.
type Service struct {
	// Set has the service's id and its decorations.
	Set
	// SchemaFile names a file with the service's GraphQL schema, as it is written in the
	// document; empty for none.
	SchemaFile string
	// Line is where the service stands in the document, from 1.
	Line int
}

// ParseServices reads a document of several services, in YAML or JSON:
//
//	services:
//	  shop:
//	    decorations:
//	      - field_path: Query.products
//	        mul_arguments: [first]
//	    schema_file: shop.graphql   # optional
//
// or the set of one service with its service_id, as Parse reads it. The result is ordered by
// service. It is as strict as Parse; a service that says nothing is an error too.
func ParseServices(text []byte) ([]Service, error) {
	document, err := readDocument(text)
	if err != nil {
		return nil, fmt.Errorf("read decorations: %w", err)
	}
	services, err := readServices(document)
	if err != nil {
		return nil, fmt.Errorf("read decorations: %w", err)
	}
	return services, nil
}

func readServices(document node) ([]Service, error) {
	list, several := document.member(memberServices)
	if !several {
		set, err := readSet(document)
		if err != nil {
			return nil, err
		}
		if set.ServiceID == "" {
			return nil, faultf(document.line, "neither %s nor %s says whose the decorations are", memberServices, memberServiceID)
		}
		return []Service{{Set: set, Line: document.line}}, nil
	}
	for _, m := range document.value.([]member) {
		if m.name != memberServices {
			return nil, faultf(m.line, "unknown member %.80q beside %s", m.name, memberServices)
		}
	}
	members, ok := list.value.([]member)
	if !ok {
		return nil, faultf(list.line, "%s must be an object of services by their ids, not %s", memberServices, list.kind())
	}
	services := make([]Service, 0, len(members))
	for _, m := range members {
		service, err := readService(m)
		if err != nil {
			return nil, err
		}
		services = append(services, service)
	}
	slices.SortFunc(services, func(a, b Service) int { return cmp.Compare(a.ServiceID, b.ServiceID) })
	return services, nil
}

// readService reads one member of services.
func readService(entry member) (Service, error) {
	if !validID.MatchString(entry.name) {
		return Service{}, faultf(entry.line, "%.80q is no id of a service", entry.name)
	}
	service := Service{Set: Set{ServiceID: entry.name}, Line: entry.line}
	members, ok := entry.value.value.([]member)
	if !ok || len(members) == 0 {
		return Service{}, faultf(entry.line, "service %s must be an object with %s or %s", entry.name, memberDecorations, memberSchemaFile)
	}
	for _, m := range members {
		switch m.name {
		case memberDecorations:
			var err error
			if service.Decorations, err = readList(m.value, entry.name); err != nil {
				return Service{}, fmt.Errorf("service %s: %w", entry.name, err)
			}
		case memberSchemaFile:
			service.SchemaFile, _ = m.value.value.(string)
			if service.SchemaFile == "" {
				return Service{}, faultf(m.line, "service %s: %s must name a file", entry.name, memberSchemaFile)
			}
		default:
			return Service{}, faultf(m.line, "service %s: unknown member %.80q: it may have %s and %s",
				entry.name, m.name, memberDecorations, memberSchemaFile)
		}
	}
	return service, nil
}
