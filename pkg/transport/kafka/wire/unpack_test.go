package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// latest is the version of answers in these tests.
const latest = 11

// answerOf is an answer's body with such sets of batches, one a partition.
func answerOf(sets ...[]byte) []byte {
	b := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't'}
	b = binary.BigEndian.AppendUint32(b, uint32(len(sets)))
	for i, set := range sets {
		b = binary.BigEndian.AppendUint32(b, uint32(i))
		b = append(b, make([]byte, 2+8+8+8+4+4)...)
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(set))), set...)
	}
	return b
}

func shapeOf(t testing.TB, key, version int16) string {
	t.Helper()
	a, err := Find(key, version)
	if err != nil {
		t.Fatal(err)
	}
	return a.Answer(version)
}

// read is what the library makes of an answer: the records of each partition, as
// OFFSET=VALUE, or OFFSET for none.
func read(t testing.TB, body []byte) (all [][]string) {
	t.Helper()
	frame := Frame(append([]byte{0, 0, 0, 1}, body...))
	_, message, err := protocol.ReadResponse(bufio.NewReader(bytes.NewReader(frame)), protocol.Fetch, latest)
	if err != nil {
		t.Fatal(err)
	}
	answer, ok := message.(*fetch.Response)
	if !ok {
		t.Fatalf("%T", message)
	}
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			all = append(all, recordsOf(t, p.RecordSet.Records))
		}
	}
	return all
}

func recordsOf(t testing.TB, from protocol.RecordReader) (all []string) {
	t.Helper()
	for from != nil {
		r, err := from.ReadRecord()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		one := fmt.Sprint(r.Offset)
		if value, err := protocol.ReadAll(r.Value); err != nil {
			t.Fatal(err)
		} else if value != nil {
			one += "=" + string(value)
		}
		all = append(all, one)
	}
	return all
}

func moved(offset byte, batch []byte) []byte { return changed(batch, 7, offset) }

// The library gets what is right, and a place to go on after what is not.
func TestUnpack(t *testing.T) {
	two := batchOf(t, protocol.Zstd, []byte("a"), []byte("b"))
	bomb := batchOf(t, protocol.Zstd, make([]byte, MaxPlain+1))
	hole := changed(batchOf(t, 0, []byte("c")), atLastDelta, 0, 0, 0, 9)
	old := make([]byte, 40) // a message of format 1
	copy(old[atLength:], []byte{0, 0, 0, 28})
	old[atMagic] = 1
	for _, tt := range []struct {
		name    string
		set     []byte
		want    []string
		refused int
	}{
		{"nothing", nil, nil, 0},
		{"good", slices.Concat(moved(5, two), moved(7, two)), []string{"5=a", "6=b", "7=a", "8=b"}, 0},
		{"cut off", slices.Concat(moved(5, two), two[:30]), []string{"5=a", "6=b"}, 0},
		{"a bomb", slices.Concat(moved(5, bomb), moved(6, two)), []string{"5", "6=a", "7=b"}, 1},
		{"claims", slices.Concat(moved(5, changed(two, atCount, 0x7f, 0xff, 0xff, 0xff)), moved(7, two)), []string{"6", "7=a", "8=b"}, 1},
		{"a hole", slices.Concat(moved(5, hole), moved(15, two)), []string{"5=c", "14", "15=a", "16=b"}, 0},
		{"a broker's word", moved(5, changed(two, atAttributes, 0, 0x24)), []string{"6"}, 0},
		{"emptied", moved(5, changed(changed(changed(two[:batchHead], atLength, 0, 0, 0, batchHead-12), atAttributes, 0, 0), atCount, 0, 0, 0, 0)), []string{"6"}, 0},
		{"an old one", moved(3, old), []string{"3"}, 1},
	} {
		refused := 0
		out, err := Unpack(shapeOf(t, Fetch, latest), answerOf(tt.set, moved(1, two)), func(error) { refused++ })
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := read(t, out)
		if !slices.Equal(got[0], tt.want) || !slices.Equal(got[1], []string{"1=a", "2=b"}) || refused != tt.refused {
			t.Errorf("%s: %v, want %v; %d refused", tt.name, got, tt.want, refused)
		}
	}
}

// An answer full of batches that hold much becomes no more than there is room for; the
// rest is left to the next one.
func TestUnpackStops(t *testing.T) {
	full := batchOf(t, protocol.Snappy, make([]byte, MaxPlain-100))
	out, err := Unpack(shapeOf(t, Fetch, latest), answerOf(bytes.Repeat(full, 50), full), nil)
	if err != nil || len(out) > maxUnpacked+2*MaxPlain {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	if got := read(t, out); len(got[0]) != maxUnpacked/(MaxPlain-100)+1 && len(got[0]) != maxUnpacked/MaxPlain+1 {
		t.Errorf("%d batches", len(got[0]))
	}
}

// FuzzUnpack wants the library to read whatever comes out: of an answer of any bytes, and
// of one with a batch of any bytes.
func FuzzUnpack(f *testing.F) {
	for _, codec := range codecs {
		b := batchOf(f, codec, []byte("one"), nil)
		f.Add(answerOf(b, nil), b)
	}
	b := changed(batchOf(f, 0, nil), atCount, 0x7f, 0xff, 0xff, 0xff)
	f.Add(answerOf(b), b)
	shape := shapeOf(f, Fetch, latest)
	f.Fuzz(func(t *testing.T, body, raw []byte) {
		for _, body := range [][]byte{body, answerOf(whole(raw))} {
			if out, err := Unpack(shape, body, nil); err == nil {
				read(t, out)
			}
		}
	})
}
