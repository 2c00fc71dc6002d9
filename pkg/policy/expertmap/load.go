package expertmap

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Load reads a snapshot.
func Load(r io.Reader) (*Store, error) {
	sum := sha256.New()
	in := &summing{r: bufio.NewReaderSize(r, 1<<16), sum: sum}
	h, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	s, err := New(h.Settings)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if s.Settings != h.Settings {
		return nil, fmt.Errorf("%w: its settings are not complete", ErrDamaged)
	}
	for i, one := range h.Parts {
		if i > 0 && bytes.Compare(h.Parts[i-1].Scope, one.Scope) >= 0 || s.Shared && len(one.Scope) > 0 {
			return nil, fmt.Errorf("%w: its tenants are not in order", ErrDamaged)
		}
		if err := s.loadPart(in, one); err != nil {
			return nil, err
		}
	}
	want := sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in.r, got); err != nil || !bytes.Equal(got, want) {
		return nil, fmt.Errorf("%w: its digest is not that of its content; restore it from elsewhere, or build it anew", ErrDamaged)
	}
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows its end", ErrDamaged)
	}
	return s, nil
}

// summing adds what is read to a digest.
type summing struct {
	r   *bufio.Reader
	sum hash.Hash
}

func (s *summing) read(b []byte) error {
	if _, err := io.ReadFull(s.r, b); err != nil {
		return fmt.Errorf("%w: it is cut off (%w); restore it from elsewhere, or build it anew", ErrDamaged, err)
	}
	s.sum.Write(b)
	return nil
}

func readHeader(in *summing) (h header, err error) {
	begin := make([]byte, len(Magic)+4)
	if err := in.read(begin[:len(Magic)]); err != nil || string(begin[:len(Magic)]) != Magic {
		return h, fmt.Errorf("%w: it does not begin with %q", ErrNoSnapshot, strings.TrimSpace(Magic))
	}
	if err := in.read(begin[len(Magic):]); err != nil {
		return h, err
	}
	size := binary.LittleEndian.Uint32(begin[len(Magic):])
	if size > mostHeader {
		return h, fmt.Errorf("%w: its header has %d bytes; at most %d are read", ErrDamaged, size, mostHeader)
	}
	data, err := io.ReadAll(io.LimitReader(in.r, int64(size)))
	if err != nil || len(data) < int(size) {
		return h, fmt.Errorf("%w: it is cut off in its header; restore it from elsewhere, or build it anew", ErrDamaged)
	}
	in.sum.Write(data)
	if err := json.Unmarshal(data, &h); err != nil {
		return h, fmt.Errorf("%w: reading its header: %w", ErrDamaged, err)
	}
	return h, nil
}

// loadPart reads one part's maps.
func (s *Store) loadPart(in *summing, h headerPart) error {
	if h.Maps < 1 || h.Maps > s.Capacity || h.Clock > mostClock || len(h.Owners) < 1 || len(h.Owners) > s.Tenants || len(s.parts) >= s.Tenants {
		return fmt.Errorf("%w: it says that %d maps of %d tenants belong together", ErrDamaged, h.Maps, len(h.Owners))
	}
	p, err := s.room(string(h.Scope))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for _, name := range h.Owners {
		if len(name) > mostOwner || !s.Shared && !bytes.Equal(name, h.Scope) {
			return fmt.Errorf("%w: it has maps of another tenant among those of one", ErrDamaged)
		}
		p.owners = append(p.owners, owner{name: string(name)})
	}
	p.clock = h.Clock
	for range h.Maps {
		if err := p.load(in); err != nil {
			return err
		}
	}
	return p.checkOwners()
}

func (p *part) load(in *summing) error {
	size := recordSize
	for _, t := range p.tables() {
		size += t.RowBytes()
	}
	b := make([]byte, size)
	if err := in.read(b); err != nil {
		return err
	}
	who, added, uses := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint32(b[12:])
	if int(who) >= len(p.owners) || added < 1 || added > p.clock {
		return fmt.Errorf("%w: it has a map of owner %d of %d, added at %d of %d", ErrDamaged, who, len(p.owners), added, p.clock)
	}
	slot, _ := p.free()
	b = b[recordSize:]
	for _, t := range p.tables() {
		if t == p.embeddings {
			p.sums[slot] = checksum(b[:t.RowBytes()])
		}
		t.SetRow(slot, b[:t.RowBytes()])
		b = b[t.RowBytes():]
	}
	p.added[slot], p.changed[slot], p.uses[slot], p.owner[slot] = added, added, uses, int32(who)
	p.owners[who].maps++
	return p.measure(slot)
}

// roughly is how far the sum of a map's layer may be from 1 after rounding to FP8.
const roughly = 0.1

// measure computes a slot's norms, and refuses values that cannot be.
func (p *part) measure(slot int) error {
	m := p.mapIn(slot)
	err := checkEmbedding(m.Embedding)
	if p.embeddings != nil {
		p.embeddingNorms[slot] = cpu.Chain(m.Embedding, m.Embedding)
	}
	for l := 0; l < p.Layers && err == nil; l++ {
		row := m.Probabilities[l*p.Experts : (l+1)*p.Experts]
		p.norms[l][slot] = cpu.Chain(row, row)
		err = checkRow(row, roughly)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	p.sumNorms(slot)
	return nil
}

// checkOwners refuses a part whose owners are not those of its maps.
func (p *part) checkOwners() error {
	names := map[string]bool{}
	for _, o := range p.owners {
		if o.maps == 0 {
			continue
		}
		if names[o.name] {
			return fmt.Errorf("%w: it names a tenant twice", ErrDamaged)
		}
		names[o.name] = true
	}
	return nil
}
