package wire

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// maxUnpacked and maxUnpackedRecords bound what one answer becomes. What is above
	// is left to the next one.
	maxUnpacked        = 16 << 20
	maxUnpackedRecords = 64 << 10
	maxPartitions      = 16 << 10
)

// unpacker makes batches of an answer into batches that a library can read without
// harm: not compressed, with the values of records and nothing else.
type unpacker struct {
	refused        func(error)
	bytes, records int
	partitions     int
}

// Unpack rewrites the answer to a Fetch. A batch that is not what it claims is told to
// refused; in its place stands one record without a value, at its last offset, so that
// who reads gets past it. So it does where a batch ends without a record.
func Unpack(shape string, answer []byte, refused func(error)) ([]byte, error) {
	u := &unpacker{refused: refused}
	var out []byte
	done := 0
	err := Walk(shape, answer, func(f Field) error {
		if f.Kind != 'r' {
			return nil
		}
		if u.partitions++; u.partitions > maxPartitions {
			return malformed("an answer of more than %d partitions", maxPartitions)
		}
		out = append(out, answer[done:f.From-4]...) // up to the length of the batches
		at := len(out)
		out = u.set(append(out, 0, 0, 0, 0), answer[f.From:f.To])
		binary.BigEndian.PutUint32(out[at:], uint32(len(out)-at-4))
		done = f.To
		return nil
	})
	return append(out, answer[done:]...), err
}

func (u *unpacker) set(out, set []byte) []byte {
	for u.bytes < maxUnpacked && u.records < maxUnpackedRecords {
		raw, rest, ok := CutBatch(set)
		if !ok {
			break
		}
		before := len(out)
		out = u.batch(out, raw)
		u.bytes += len(out) - before
		set = rest
	}
	return out
}

func (u *unpacker) batch(out, raw []byte) []byte {
	b, err := OpenBatch(raw)
	if err != nil && u.refused != nil {
		u.refused(err)
	}
	if err != nil || b.Control() || b.Count == 0 {
		return u.seal(u.skip(begin(out, LastOffset(raw)), 0), len(out), 0, 1)
	}
	at, last, n := len(out), int64(-1), b.Count
	out = begin(out, b.First)
	_ = b.Records(func(r Record) { // it was gone through before
		out = appendRecord(out, r.Delta, r.Value, false)
		last = r.Delta
	})
	if last < int64(b.LastDelta) {
		out = u.skip(out, int64(b.LastDelta))
		n++
	}
	return u.seal(out, at, b.LastDelta, n)
}

func begin(out []byte, first int64) []byte {
	var head [batchHead]byte
	binary.BigEndian.PutUint64(head[:], uint64(first))
	for i := atProducer; i < atCount; i++ {
		head[i] = 0xff // no producer
	}
	head[atMagic] = 2
	return append(out, head[:]...)
}

func (u *unpacker) seal(out []byte, at int, lastDelta int32, count int) []byte {
	u.records += count
	b := out[at:]
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-atLength-4))
	binary.BigEndian.PutUint32(b[atLastDelta:], uint32(lastDelta))
	binary.BigEndian.PutUint32(b[atCount:], uint32(count))
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
	return out
}

func (u *unpacker) skip(out []byte, delta int64) []byte { return appendRecord(out, delta, nil, true) }

// appendRecord appends a record with no key, no time and no headers.
func appendRecord(out []byte, delta int64, value []byte, null bool) []byte {
	var body [2 * binary.MaxVarintLen64]byte
	head := append(body[:0], 0, 0)
	head = append(binary.AppendVarint(head, delta), 1) // 1 is -1: no key
	length := int64(len(value))
	if null {
		length = -1
	}
	head = binary.AppendVarint(head, length)
	out = binary.AppendVarint(out, int64(len(head)+len(value)+1))
	out = append(out, head...)
	out = append(out, value...)
	return append(out, 0)
}
