package limiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"graphql-limit-count/internal/regular"
)

// A snapshot is a file, all integers little-endian:
//
//	magic      8 bytes, "GLCSNAP" and the version
//	wall       int64, the wall clock at the save, Unix ns
//	clock      int64, the clock of the counters at the same instant, Unix ns
//	records    one after the other:
//	  kind       byte: fixedEntry, slidingEntry or leakyEntry
//	  use        byte
//	  key        uvarint length, bytes
//	  consumed   uint64
//	  end        int64
//	  previous   uint64  \ only of a sliding window
//	  length     int64   /
//	checksum   uint32, CRC-32C of everything before
//
// The counters' clock is monotonic within a process and the wall clock is what two
// processes share, so times are moved by the difference of the two.

const (
	snapshotMagic = "GLCSNAP\x01"
	// snapshotHeader and snapshotTrailer are sizes in bytes.
	snapshotHeader  = len(snapshotMagic) + 8 + 8
	snapshotTrailer = 4
	// snapshotLeftover is the age from which a temporary file is one that a killed
	// process left behind, not one being written.
	snapshotLeftover = time.Minute
	// maxSnapshot is the largest snapshot that is read, in bytes: 30 million counters.
	maxSnapshot = 4 << 30
	// reserveSpread: a shard is expected to get at most this part more than its share.
	reserveSpread = 16
)

// ErrDamaged is returned for a snapshot that is not whole or not one of this version.
var ErrDamaged = errors.New("damaged snapshot")

var (
	errSnapshotRecord = fmt.Errorf("%w: a record is not valid", ErrDamaged)
	castagnoli        = crc32.MakeTable(crc32.Castagnoli)
)

// Save writes the counters whose window has not ended to a file, which is replaced in one
// step, and returns how many those were. Charges go on meanwhile: each waits for no more
// than its shard's part. Nothing is forced onto the disk: a snapshot is to outlive the
// process, and one that a crash of the machine left incomplete is recognised by Restore.
func (l *Local) Save(path string) (saved int, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return 0, fmt.Errorf("saving counters: %w", err)
	}
	saved, err = l.writeSnapshot(f)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("saving counters: %w", err), os.Remove(f.Name()))
	}
	return saved, nil
}

func (l *Local) writeSnapshot(w io.Writer) (saved int, err error) {
	reading, clock := l.reading()
	buf := append([]byte(nil), snapshotMagic...)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(reading.UnixNano()))
	buf = binary.LittleEndian.AppendUint64(buf, uint64(clock))
	sum := uint32(0)
	for i := range l.shards {
		var n int
		buf, n = l.shards[i].appendRecords(buf, clock)
		saved += n
		sum = crc32.Update(sum, castagnoli, buf)
		if _, err := w.Write(buf); err != nil {
			return 0, err
		}
		buf = buf[:0]
	}
	_, err = w.Write(binary.LittleEndian.AppendUint32(nil, sum))
	return saved, err
}

// appendRecords adds a shard's live counters to buf.
func (s *shard) appendRecords(buf []byte, now int64) (_ []byte, appended int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.entries {
		if e := &s.entries[i]; e.kind > newEntry && now < e.end {
			buf = e.appendRecord(buf)
			appended++
		}
	}
	return buf, appended
}

func (e *entry) appendRecord(buf []byte) []byte {
	buf = append(buf, byte(e.kind), e.use)
	buf = binary.AppendUvarint(buf, uint64(len(e.key)))
	buf = append(buf, e.key...)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(e.consumed))
	buf = binary.LittleEndian.AppendUint64(buf, uint64(e.end))
	if e.kind == slidingEntry {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(e.previous))
		buf = binary.LittleEndian.AppendUint64(buf, uint64(e.length))
	}
	return buf
}

// Restore adds the counters of a snapshot whose window has not ended since, except keys
// that were charged meanwhile, and returns how many those were. MaxKeys holds as for
// charges. A damaged snapshot is ErrDamaged, one that does not exist fs.ErrNotExist, and
// both leave the counters as they were.
func (l *Local) Restore(path string) (restored int, err error) {
	removeLeftovers(path)
	data, _, err := regular.Read(path, maxSnapshot)
	if err != nil {
		return 0, fmt.Errorf("restoring counters: %w", err)
	}
	records, count, shift, err := openSnapshot(data)
	if err != nil {
		return 0, fmt.Errorf("restoring counters from %s: %w", path, err)
	}
	l.reserve(count)
	reading, clock := l.reading()
	shift += clock - reading.UnixNano()
	for len(records) > 0 {
		var e entry
		var key []byte
		e, key, records, _ = readRecord(records) // openSnapshot has read them all
		e.shift(shift)
		if clock >= e.end {
			continue
		}
		e.key = string(key)
		if l.add(e, clock) {
			restored++
		}
	}
	return restored, nil
}

// reserve makes room for so many counters more, at most MaxKeys, in shards that are empty:
// growing by and by takes a third of the time of a restore.
func (l *Local) reserve(count int) {
	perShard := min(count, int(l.maxKeys)) / len(l.shards)
	perShard += perShard / reserveSpread
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		if len(s.entries) == 0 {
			s.entries = make([]entry, 0, perShard)
			s.index = newIndex(perShard)
		}
		s.mu.Unlock()
	}
}

// add puts a counter in, unless its key is there.
func (l *Local) add(e entry, now int64) bool {
	hash := l.hash(e.key)
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(hash, e.key) != nil {
		return false
	}
	added := l.insert(s, hash, e.key, now)
	*added = e
	return true
}

// removeLeftovers removes the temporary files of saves that never ended. What cannot be
// removed is left.
func removeLeftovers(path string) {
	dir, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return
	}
	for _, file := range dir {
		if !strings.HasPrefix(file.Name(), filepath.Base(path)+".") || filepath.Ext(file.Name()) != ".tmp" {
			continue
		}
		if info, err := file.Info(); err == nil && time.Since(info.ModTime()) > snapshotLeftover {
			_ = os.Remove(filepath.Join(filepath.Dir(path), file.Name()))
		}
	}
}

// openSnapshot checks a snapshot whole and returns its records, how many they are, and
// what their times must be moved by to be wall clock times.
func openSnapshot(data []byte) (records []byte, count int, shift int64, err error) {
	if len(data) < snapshotHeader+snapshotTrailer {
		return nil, 0, 0, fmt.Errorf("%w: %d bytes are too short", ErrDamaged, len(data))
	}
	if string(data[:len(snapshotMagic)]) != snapshotMagic {
		return nil, 0, 0, fmt.Errorf("%w: it does not start as version %d does", ErrDamaged, snapshotMagic[len(snapshotMagic)-1])
	}
	body, trailer := data[:len(data)-snapshotTrailer], data[len(data)-snapshotTrailer:]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(trailer) {
		return nil, 0, 0, fmt.Errorf("%w: the checksum does not match", ErrDamaged)
	}
	times := body[len(snapshotMagic):]
	wall := int64(binary.LittleEndian.Uint64(times))
	clock := int64(binary.LittleEndian.Uint64(times[8:]))
	records = body[snapshotHeader:]
	for rest := records; len(rest) > 0; count++ {
		if _, _, rest, err = readRecord(rest); err != nil {
			return nil, 0, 0, err
		}
	}
	return records, count, wall - clock, nil
}

// readRecord reads the first record. The key is a part of data, and not yet the entry's.
func readRecord(data []byte) (e entry, key, rest []byte, err error) {
	if len(data) < 2 {
		return entry{}, nil, nil, errSnapshotRecord
	}
	e.kind, e.use = entryKind(data[0]), min(data[1], atLimit)
	size, n := binary.Uvarint(data[2:])
	data = data[2+max(n, 0):]
	numbers := 2
	if e.kind == slidingEntry {
		numbers = 4
	}
	if n <= 0 || size > uint64(len(data)) || len(data)-int(size) < numbers*8 {
		return entry{}, nil, nil, errSnapshotRecord
	}
	key, data = data[:size], data[size:]
	e.consumed = int64(binary.LittleEndian.Uint64(data))
	e.end = int64(binary.LittleEndian.Uint64(data[8:]))
	if e.kind == slidingEntry {
		e.previous = int64(binary.LittleEndian.Uint64(data[16:]))
		e.length = int64(binary.LittleEndian.Uint64(data[24:]))
	}
	if !e.valid() {
		return entry{}, nil, nil, errSnapshotRecord
	}
	return e, key, data[numbers*8:], nil
}

// valid reports whether an entry that was read can be one that was written: what the
// arithmetic relies on.
func (e *entry) valid() bool {
	if e.end < 0 {
		return false
	}
	switch e.kind {
	case fixedEntry:
		return e.consumed >= 0 && e.consumed <= MaxCount
	case slidingEntry:
		w := slidingWindow{start: 0, length: e.length, current: e.consumed, previous: e.previous}
		return w.valid() && e.end/int64(time.Microsecond) >= 2*e.length
	case leakyEntry:
		tat := math.Float64frombits(uint64(e.consumed))
		return !math.IsNaN(tat) && !math.IsInf(tat, 0)
	default:
		return false
	}
}

// shift moves an entry's times by so many nanoseconds.
func (e *entry) shift(by int64) {
	if by > 0 {
		e.end = addTime(e.end, time.Duration(by))
	} else {
		e.end += by
	}
	if e.kind == leakyEntry {
		tat := math.Float64frombits(uint64(e.consumed)) + time.Duration(by).Seconds()
		e.consumed = int64(math.Float64bits(tat))
	}
}
