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
		headers: headerList{names: trimRoom(d.headers.names, keepRoomEntries), text: trimRoom(d.headers.text, keepRoomBytes)},
		room: room{
			scan:       jsonScanner{closers: trimRoom(d.room.scan.closers, keepRoomBytes)},
			text:       trimRoom(d.room.text, keepRoomBytes),
			names:      nameSet{names: trimRoom(d.room.names.names, keepRoomEntries)},
			operations: trimRoom(d.room.operations, keepRoomEntries),
			values:     trimRoom(d.room.values, keepRoomEntries),
			charges:    trimRoom(d.room.charges, keepRoomEntries),
		},
	}
}

// trimRoom empties room, and gives up one that is larger than keep.
func trimRoom[T any](room []T, keep int) []T {
	if cap(room) > keep {
		return nil
	}
	clear(room)
	return room[:0]
}
