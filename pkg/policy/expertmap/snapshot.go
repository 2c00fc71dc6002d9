package expertmap

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Magic is how a snapshot begins.
const Magic = "switchyard-maps-1\n"

// What is refused of snapshots.
var (
	ErrNoSnapshot = errors.New("no snapshot of expert maps")
	ErrDamaged    = errors.New("a damaged snapshot of expert maps")
	ErrForeign    = errors.New("a snapshot of other expert maps")
)

// header is a snapshot's beginning. Its parts follow in the same order, and the digest of
// all before at the end.
type header struct {
	Settings
	Parts []headerPart `json:"parts"`
}

// headerPart is a part without its maps. Names are bytes, which JSON keeps.
type headerPart struct {
	Scope  []byte   `json:"scope"`
	Owners [][]byte `json:"owners"`
	Clock  uint64   `json:"clock"`
	Maps   int      `json:"maps"`
}

const (
	mostHeader = 64 << 20
	mostOwner  = 1 << 16 // bytes of a tenant's name
	mostClock  = 1 << 62
	recordSize = 4 + 8 + 4 // owner, when it was added, how often it was found
)

// Save writes a snapshot: maps, in their slots, with what replacement goes by. Equal
// stores give equal bytes.
func (s *Store) Save(w io.Writer) error {
	_, err := s.save(w, true)
	return err
}

// Digest names the store's content: equal for stores that hold equal maps in equal slots
// and will replace them equally. How often maps were found counts only where that decides.
func (s *Store) Digest() string {
	digest, err := s.save(io.Discard, s.Replace == LeastUseful)
	if err != nil {
		panic(err) // io.Discard takes everything
	}
	return digest
}

// save writes and returns the digest.
func (s *Store) save(w io.Writer, uses bool) (digest string, err error) {
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	scopes := slices.Sorted(maps.Keys(s.parts))
	if err := s.writeHeader(out, scopes); err != nil {
		return "", err
	}
	for _, scope := range scopes {
		if err := s.parts[scope].save(out, uses); err != nil {
			return "", fmt.Errorf("writing expert maps: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return "", fmt.Errorf("writing expert maps: %w", err)
	}
	whole := sum.Sum(nil)
	if _, err := w.Write(whole); err != nil {
		return "", fmt.Errorf("writing expert maps: %w", err)
	}
	return hex.EncodeToString(whole), nil
}

func (s *Store) writeHeader(out *bufio.Writer, scopes []string) error {
	h := header{Settings: s.Settings, Parts: []headerPart{}}
	for _, scope := range scopes {
		p := s.parts[scope]
		one := headerPart{Scope: []byte(scope), Clock: p.clock, Maps: p.count}
		for _, o := range p.owners {
			one.Owners = append(one.Owners, []byte(o.name))
		}
		h.Parts = append(h.Parts, one)
	}
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encoding the header of expert maps: %w", err)
	}
	_, err = out.Write(slices.Concat([]byte(Magic), binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data))
	return err
}

// save writes the part's maps by slot.
func (p *part) save(out *bufio.Writer, uses bool) error {
	for slot := range p.count {
		b := binary.LittleEndian.AppendUint32(p.encoded[:0], uint32(p.owner[slot]))
		b = binary.LittleEndian.AppendUint64(b, p.added[slot])
		used := uint32(0)
		if uses {
			used = atomic.LoadUint32(&p.uses[slot])
		}
		b = binary.LittleEndian.AppendUint32(b, used)
		for _, t := range p.tables() {
			b = t.AppendRow(b, slot)
		}
		p.encoded = b
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func (p *part) tables() []*cpu.Table {
	if p.embeddings == nil {
		return p.layers
	}
	return append([]*cpu.Table{p.embeddings}, p.layers...)
}
