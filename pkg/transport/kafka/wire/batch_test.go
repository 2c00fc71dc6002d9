package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/switchyard/switchyard/internal/testkit"
)

// batchOf is one of the library's.
func batchOf(t testing.TB, codec protocol.Attributes, values ...[]byte) []byte {
	t.Helper()
	var records []protocol.Record
	for _, v := range values {
		records = append(records, protocol.Record{Value: protocol.NewBytes(v), Key: protocol.NewBytes([]byte("k")), Headers: []protocol.Header{{Key: "h", Value: []byte("v")}}})
	}
	set := protocol.RecordSet{Version: 2, Attributes: codec, Records: protocol.NewRecordReader(records...)}
	var b bytes.Buffer
	if _, err := set.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()[4:]
}

// changed is a batch with bytes at a place, and a checksum that fits.
func changed(batch []byte, at int, bytes ...byte) []byte {
	out := slices.Clone(batch)
	copy(out[at:], bytes)
	binary.BigEndian.PutUint32(out[atCRC:], crc32.Checksum(out[atAttributes:], castagnoli))
	return out
}

// whole is a batch of these bytes whose length, format and checksum are right.
func whole(raw []byte) []byte {
	if len(raw) < batchHead {
		return raw
	}
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(raw)-atLength-4))
	return changed(changed(raw, atLength, length[:]...), atMagic, 2)
}

var codecs = map[string]protocol.Attributes{"plain": 0, "gzip": protocol.Gzip, "snappy": protocol.Snappy, "lz4": protocol.Lz4, "zstd": protocol.Zstd}

func TestOpenBatch(t *testing.T) {
	for name, codec := range codecs {
		b, err := OpenBatch(batchOf(t, codec, []byte("one"), nil, bytes.Repeat([]byte("three"), 1000)))
		if err != nil || b.Count != 3 || b.LastDelta != 2 || b.Producer != -1 {
			t.Fatalf("%s: %+v, %v", name, b, err)
		}
		var got [][]byte
		if err := b.Records(func(r Record) { got = append(got, r.Value) }); err != nil || string(got[0]) != "one" || got[1] != nil || len(got[2]) != 5000 {
			t.Errorf("%s: %d records, %v", name, len(got), err)
		}
	}
}

func TestOpenBatchRefuses(t *testing.T) {
	good := batchOf(t, 0, []byte("one"), []byte("two"))
	bomb := func(codec protocol.Attributes) []byte { return batchOf(t, codec, make([]byte, MaxPlain+1)) }
	swollen := func(codec protocol.Attributes) []byte { return batchOf(t, codec, make([]byte, MaxPlain/2)) }
	for _, tt := range []struct {
		name  string
		batch []byte
		want  error
	}{
		{"nothing", nil, ErrMalformed},
		{"a head cut off", good[:60], ErrMalformed},
		{"cut off", good[:len(good)-1], ErrMalformed},
		{"checksum", append(slices.Clone(good[:len(good)-1]), 9), ErrMalformed},
		{"format", changed(good, atMagic, 1), ErrMalformed},
		{"2147483647 records", changed(good, atCount, 0x7f, 0xff, 0xff, 0xff), ErrTooLarge},
		{"-1 records", changed(good, atCount, 0xff, 0xff, 0xff, 0xff), ErrTooLarge},
		{"more records than bytes", changed(good, atCount, 0, 0, 1, 0), ErrMalformed},
		{"a record too many", changed(good, atCount, 0, 0, 0, 3), ErrMalformed},
		{"a record too few", changed(good, atCount, 0, 0, 0, 1), ErrMalformed},
		{"offsets", changed(good, atLastDelta, 0, 0, 0, 0), ErrMalformed},
		{"offsets that overflow", changed(good, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), ErrMalformed},
		{"compression", changed(good, atAttributes, 0, 5), ErrMalformed},
		{"not compressed as it says", changed(good, atAttributes, 0, 4), ErrMalformed},
		{"long record", changed(good, batchHead, 0xfe, 0xff), ErrMalformed},
		{"gzip bomb", bomb(protocol.Gzip), ErrTooLarge}, {"snappy bomb", bomb(protocol.Snappy), ErrTooLarge},
		{"lz4 bomb", bomb(protocol.Lz4), ErrTooLarge}, {"zstd bomb", bomb(protocol.Zstd), ErrTooLarge}, {"large", bomb(0), ErrTooLarge},
		{"gzip ratio", swollen(protocol.Gzip), ErrTooLarge}, {"lz4 ratio", swollen(protocol.Lz4), ErrTooLarge}, {"zstd ratio", swollen(protocol.Zstd), ErrTooLarge},
		{"snappy block's length", changed(batchOf(t, protocol.Snappy, nil), batchHead, 0xff, 0xff, 0xff, 0xff, 0x0f), ErrTooLarge},
	} {
		if _, err := OpenBatch(tt.batch); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// A frame of zstd that claims a window of two gigabytes gets no room for it.
func TestWindow(t *testing.T) {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00}
	before := testkit.Memory()
	if _, err := unpack(zstded, frame); !errors.Is(err, ErrMalformed) {
		t.Errorf("%v", err)
	}
	if grown := testkit.Memory() - before; grown > 64<<20 {
		t.Errorf("memory has grown by %d bytes", grown)
	}
}

// FuzzBatch wants any bytes to be a batch or an error, and a batch to be within bounds.
func FuzzBatch(f *testing.F) {
	for _, codec := range codecs {
		f.Add(batchOf(f, codec, []byte("one"), nil))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := OpenBatch(whole(raw))
		if err != nil {
			return
		}
		if len(b.records) > MaxPlain || b.Count > MaxRecords || b.Count*leastRecord > len(b.records) {
			t.Errorf("%d records of %d bytes", b.Count, len(b.records))
		}
	})
}
