package bayes

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// A snapshot is the magic, the header as JSON behind its length, the layers, and the SHA-256 of all
// that. A layer is the number of its tokens, and of each token how much it is above the one before,
// the number of its entries, and the entries. Numbers are varints.

const magic = "switchyard-bayes-1\n"

// Marshal is the table's snapshot. The same table has the same bytes.
func (t *Table) Marshal() ([]byte, error) {
	head, err := json.Marshal(&t.Header)
	if err != nil {
		return nil, wrong("encoding its header: %w", err)
	}
	out := binary.AppendUvarint([]byte(magic), uint64(len(head)))
	out = append(out, head...)
	for _, l := range t.layers {
		out = binary.AppendUvarint(out, uint64(len(l.tokens)))
		before := uint32(0)
		for i, token := range l.tokens {
			out = binary.AppendUvarint(out, uint64(token-before))
			out = binary.AppendUvarint(out, uint64(len(l.of[i])))
			before = token
			for _, e := range l.of[i] {
				for _, v := range [...]uint32{e.position, e.key, uint32(e.expert), e.count} {
					out = binary.AppendUvarint(out, uint64(v))
				}
			}
		}
	}
	digest := sha256.Sum256(out)
	return append(out, digest[:]...), nil
}

// Digest tells snapshots apart.
func Digest(snapshot []byte) string {
	return hex.EncodeToString(snapshot[max(0, len(snapshot)-sha256.Size):])
}

// Unmarshal reads a snapshot. What is not whole, or no snapshot, is refused.
func Unmarshal(data []byte) (*Table, error) {
	if !bytes.HasPrefix(data, []byte(magic)) || len(data) < len(magic)+sha256.Size {
		return nil, wrong("the file does not begin as one; make it with switchyard bayes build")
	}
	body := data[:len(data)-sha256.Size]
	if digest := sha256.Sum256(body); !bytes.Equal(digest[:], data[len(body):]) {
		return nil, wrong("its digest is another one: the file is not whole, or was changed; build it anew")
	}
	r := reader{rest: body[len(magic):]}
	t := &Table{}
	if err := json.Unmarshal(r.bytes(r.number(1<<20)), &t.Header); err != nil {
		return nil, wrong("reading its header: %w", err)
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	for range t.Layers {
		t.layers = append(t.layers, r.layer(&t.Header))
	}
	if !r.failed && len(r.rest) > 0 {
		r.failed = true
	}
	if r.failed {
		return nil, wrong("its entries are not in order, or are no entries of its model; build it anew")
	}
	return t, nil
}

// reader takes numbers off bytes. From the first that cannot be on all are 0.
type reader struct {
	rest   []byte
	failed bool
}

// number is the next one, which is at most so much.
func (r *reader) number(most uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if r.failed || n <= 0 || v > most {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if r.failed || n > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

// layer reads one. Each token and entry takes bytes, so that none can claim more than there are.
func (r *reader) layer(h *Header) (l layer) {
	tokens := r.number(uint64(len(r.rest)))
	token := uint64(0)
	for i := range tokens {
		step := r.number(uint64(h.Vocab) - 1)
		token += step
		list := r.entries(h)
		if r.failed = r.failed || i > 0 && step == 0 || token >= uint64(h.Vocab) || len(list) == 0; r.failed {
			return layer{}
		}
		l.tokens, l.of = append(l.tokens, uint32(token)), append(l.of, list)
	}
	return l
}

func (r *reader) entries(h *Header) (list []entry) {
	for range r.number(uint64(len(r.rest))) {
		e := entry{
			position: uint32(r.number(mostPositions - 1)), key: uint32(r.number(uint64(h.Vocab) - 1)),
			expert: uint16(r.number(uint64(h.Experts) - 1)), count: uint32(r.number(mostCount - 1)),
		}
		if n := len(list); r.failed || e.count == 0 || n > 0 && list[n-1].compare(e) >= 0 {
			r.failed = true
			return nil
		}
		list = append(list, e)
	}
	return slices.Clip(list)
}
