package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	// MaxBatch bounds a batch as it is sent.
	MaxBatch = 512 << 10
	// MaxRecords bounds the records of a batch.
	MaxRecords = 16 << 10
	// leastRecord is a record with nothing in it.
	leastRecord = 7
)

// Places in a batch, by
// https://kafka.apache.org/documentation/#recordbatch
const (
	atLength     = 8
	atMagic      = 16
	atCRC        = 17
	atAttributes = 21
	atLastDelta  = 23
	atProducer   = 43
	atCount      = 57
	batchHead    = 61
)

// Attributes of a batch.
const (
	codecBits       = 7
	isTransactional = 1 << 4
	isControl       = 1 << 5
)

// Batch is one that holds what it claims.
type Batch struct {
	First      int64 // the offset of its first record
	LastDelta  int32 // the last one's, less that
	Attributes uint16
	Producer   int64 // -1: none that is known by a number
	Count      int
	records    []byte
}

// Record is what a batch holds of one.
type Record struct {
	Delta int64
	Value []byte
	Null  bool
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CutBatch takes the first batch off a set of them. Where a broker cut the last one off
// there is none.
func CutBatch(set []byte) (raw, rest []byte, ok bool) {
	if len(set) < atMagic+1 {
		return nil, nil, false
	}
	n := int(int32(binary.BigEndian.Uint32(set[atLength:])))
	if n < 0 || n > len(set)-atLength-4 {
		return nil, nil, false
	}
	n += atLength + 4
	return set[:n], set[n:], true
}

// LastOffset is that of a batch whatever else is wrong with it.
func LastOffset(raw []byte) int64 {
	first := int64(binary.BigEndian.Uint64(raw))
	if len(raw) < batchHead || raw[atMagic] != 2 {
		return first // of older formats it is the last one
	}
	return first + int64(max(0, int32(binary.BigEndian.Uint32(raw[atLastDelta:]))))
}

// OpenBatch wants a batch to be whole, and its claims to be true.
func OpenBatch(raw []byte) (b Batch, err error) {
	if len(raw) < batchHead {
		return b, malformed("a batch of %d bytes", len(raw))
	}
	if magic := raw[atMagic]; magic != 2 {
		return b, malformed("a batch of format %d, want 2", magic)
	}
	if n := int(int32(binary.BigEndian.Uint32(raw[atLength:]))); n != len(raw)-atLength-4 {
		return b, malformed("a batch of %d bytes that claims %d", len(raw)-atLength-4, n)
	}
	if crc32.Checksum(raw[atAttributes:], castagnoli) != binary.BigEndian.Uint32(raw[atCRC:]) {
		return b, malformed("a batch whose checksum is wrong")
	}
	b = Batch{
		First: int64(binary.BigEndian.Uint64(raw)), LastDelta: int32(binary.BigEndian.Uint32(raw[atLastDelta:])),
		Attributes: binary.BigEndian.Uint16(raw[atAttributes:]), Producer: int64(binary.BigEndian.Uint64(raw[atProducer:])),
		Count: int(int32(binary.BigEndian.Uint32(raw[atCount:]))),
	}
	if b.First < 0 || b.LastDelta < 0 || b.First+int64(b.LastDelta) < 0 {
		return b, malformed("a batch of offsets %d and %d more", b.First, b.LastDelta)
	}
	if b.Count < 0 || b.Count > MaxRecords {
		return b, fmt.Errorf("a batch that claims %d records, want at most %d: %w", b.Count, MaxRecords, ErrTooLarge)
	}
	if b.records, err = unpack(int(b.Attributes&codecBits), raw[batchHead:]); err != nil {
		return b, err
	}
	if len(b.records) > MaxPlain {
		return b, tooLarge(MaxPlain)
	}
	if b.Count*leastRecord > len(b.records) {
		return b, malformed("a batch of %d bytes that claims %d records", len(b.records), b.Count)
	}
	return b, b.Records(func(Record) {})
}

// Control reports whether a batch is a broker's word about transactions.
func (b Batch) Control() bool { return b.Attributes&isControl != 0 }

// Transactional reports whether a batch is part of a transaction.
func (b Batch) Transactional() bool { return b.Attributes&isTransactional != 0 }

// Records shows each.
func (b Batch) Records(each func(Record)) error {
	rest := b.records
	for i := range b.Count {
		n, body, err := varint(rest)
		if err != nil || n < 0 || n > int64(len(body)) {
			return malformed("record %d of %d bytes where %d are left", i, n, len(body))
		}
		r, err := openRecord(body[:n])
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if r.Delta < 0 || r.Delta > int64(b.LastDelta) {
			return malformed("record %d at offset %d of %d", i, r.Delta, b.LastDelta)
		}
		each(r)
		rest = body[n:]
	}
	if len(rest) > 0 {
		return malformed("%d bytes after the last record", len(rest))
	}
	return nil
}

// openRecord takes a record apart: attributes, time, offset, key, value and headers.
func openRecord(in []byte) (r Record, err error) {
	if len(in) < 1 {
		return r, malformed("nothing")
	}
	_, in, err = varint(in[1:])
	if err == nil {
		r.Delta, in, err = varint(in)
	}
	if err == nil {
		_, _, in, err = varbytes(in)
	}
	if err == nil {
		r.Value, r.Null, in, err = varbytes(in)
	}
	if err != nil {
		return r, err
	}
	headers, in, err := varint(in)
	if err != nil || headers < 0 || 2*headers > int64(len(in)) {
		return r, malformed("%d headers in %d bytes", headers, len(in))
	}
	for range 2 * headers { // each is a name and a value
		if _, _, in, err = varbytes(in); err != nil {
			return r, err
		}
	}
	if len(in) > 0 {
		return r, malformed("%d bytes after its end", len(in))
	}
	return r, nil
}

func varint(in []byte) (v int64, rest []byte, err error) {
	v, n := binary.Varint(in)
	if n <= 0 {
		return 0, nil, malformed("no number where one is due")
	}
	return v, in[n:], nil
}

func varbytes(in []byte) (value []byte, null bool, rest []byte, err error) {
	n, in, err := varint(in)
	if err != nil {
		return nil, false, nil, err
	}
	if n < -1 || n > int64(len(in)) {
		return nil, false, nil, malformed("%d bytes where %d are left", n, len(in))
	}
	if n == -1 {
		return nil, true, in, nil
	}
	return in[:n], false, in[n:], nil
}
