package introspect

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"graphql-limit-count/internal/regular"
)

// A kept schema is a line of text and a gzip stream. The line is
//
//	graphql-limit-count schema 1 SHA256
//
// with the version of the format and the digest of the stream, in hexadecimal. The stream
// holds a JSON object in one line (content's exported fields) and then the upstream's
// answer as it came. The file's modification time is when the upstream last gave that
// answer.
const (
	fileMagic   = "graphql-limit-count schema "
	fileVersion = "1"
	// maxHeadBytes bounds the first line.
	maxHeadBytes = 128
	// maxExcessBytes is how much larger a file may be than the answer in it: what cannot be
	// compressed, the two lines.
	maxExcessBytes = 1 << 20
)

// errOtherVersion says that a file has a format that this version does not know.
var errOtherVersion = errors.New("the file has the format of another version")

// content is what a file holds.
type content struct {
	// Name is the name of the file, so that one that was copied is not taken for another.
	Name string `json:"name"`
	// Incarnation is the life of the owner that the schema belongs to, empty where it is
	// not known.
	Incarnation string `json:"incarnation,omitempty"`

	body []byte // the answer
}

// writeFile writes a file so that whoever looks sees all of it or what was there before,
// also after a crash.
func writeFile(path string, c content, confirmed time.Time) (err error) {
	text, err := encode(c)
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	file, err := os.CreateTemp(folder, tempPrefix+"*") // mode 0600
	if err != nil {
		return fmt.Errorf("create a file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	// Not before: by its age, another process knows a file that nobody goes on writing.
	// It may have removed it meanwhile.
	if err = os.Chtimes(path, time.Time{}, confirmed); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("date %s: %w", path, err)
	}
	return syncFolder(folder)
}

// syncFolder makes renamed and removed names durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	return nil
}

// readFile reads a file and the time in it. The answer may have maxBody bytes.
func readFile(path string, maxBody int) (content, time.Time, error) {
	text, info, err := regular.Read(path, int64(maxBody)+maxExcessBytes)
	if err != nil {
		return content{}, time.Time{}, err
	}
	c, err := decode(text, maxBody)
	return c, info.ModTime(), err
}

func encode(c content) ([]byte, error) {
	meta, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the description of a schema: %w", err)
	}
	var stream bytes.Buffer
	zw, err := gzip.NewWriterLevel(&stream, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("compress a schema: %w", err)
	}
	// Writing to a bytes.Buffer does not fail.
	_, _ = zw.Write(append(meta, '\n'))
	_, _ = zw.Write(c.body)
	_ = zw.Close()
	sum := sha256.Sum256(stream.Bytes())
	head := fileMagic + fileVersion + " " + hex.EncodeToString(sum[:]) + "\n"
	return append([]byte(head), stream.Bytes()...), nil
}

// decode reads what encode made. Anything else is an error.
func decode(text []byte, maxBody int) (content, error) {
	head, _, found := bytes.Cut(text[:min(len(text), maxHeadBytes)], []byte("\n"))
	rest, magic := strings.CutPrefix(string(head), fileMagic)
	version, sum, complete := strings.Cut(rest, " ")
	if !found || !magic || !complete {
		return content{}, errors.New("the file does not begin like a kept schema")
	}
	if version != fileVersion {
		return content{}, errOtherVersion
	}
	stream := text[len(head)+1:]
	if actual := sha256.Sum256(stream); hex.EncodeToString(actual[:]) != sum {
		return content{}, errors.New("the checksum does not match")
	}
	return decompress(stream, maxBody)
}

func decompress(stream []byte, maxBody int) (content, error) {
	zr, err := gzip.NewReader(bytes.NewReader(stream))
	if err != nil {
		return content{}, fmt.Errorf("decompress: %w", err)
	}
	limit := int64(maxBody) + maxExcessBytes
	text, err := io.ReadAll(io.LimitReader(zr, limit+1))
	if err != nil {
		return content{}, fmt.Errorf("decompress: %w", err)
	}
	meta, body, found := bytes.Cut(text, []byte("\n"))
	if !found || int64(len(text)) > limit {
		return content{}, errors.New("the file does not hold a schema of an allowed size")
	}
	c := content{body: body}
	if err := json.Unmarshal(meta, &c); err != nil {
		return content{}, fmt.Errorf("read the description of the schema: %w", err)
	}
	return c, nil
}
