package plugins

import "graphql-limit-count/cost"

// room is what decisions work in, one after the other.
type room struct {
	scan       jsonScanner
	text       []byte // decoded strings
	names      nameSet
	operations []operation
	values     []cost.Value
	charges    []due
}

// What a decision keeps at most for the next, in bytes and in entries; usual requests
// need less.
const (
	keepRoomBytes   = 64 << 10
	keepRoomEntries = 64
)

// newDecision returns a decision that can be used again and again.
func newDecision(p *Plugin) *decision {
	d := &decision{plugin: p}
	d.lookup = d.request.variable
	return d
}

// end forgets the request, but keeps the room.
func (d *decision) end() {
	*d = decision{
		plugin: d.plugin, lookup: d.lookup,
		headers: headerList{names: trimRoom(d.headers.names), text: trimBytes(d.headers.text)},
		room: room{
			scan:       jsonScanner{closers: trimBytes(d.room.scan.closers)},
			text:       trimBytes(d.room.text),
			names:      nameSet{names: trimRoom(d.room.names.names)},
			operations: trimRoom(d.room.operations),
			values:     trimRoom(d.room.values),
			charges:    trimRoom(d.room.charges),
		},
	}
}

// trimRoom empties room, also of what it refers to, and gives up one that is larger
// than the next request needs.
func trimRoom[T any](room []T) []T {
	if cap(room) > keepRoomEntries {
		return nil
	}
	clear(room[:cap(room)])
	return room[:0]
}

func trimBytes(room []byte) []byte {
	if cap(room) > keepRoomBytes {
		return nil
	}
	return room[:0]
}
