package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/parallel"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// ObjectStore is a model's; it implements transfer.Objects.
type ObjectStore struct {
	conn   *bus.Conn
	stream string
	prefix string // of its subjects
}

// NewObjectStore returns the store of a model, which need not be there.
func NewObjectStore(conn *bus.Conn, of schemas.Streams) *ObjectStore {
	return &ObjectStore{conn: conn, stream: of.Objects().Name, prefix: of.ObjectPrefix()}
}

const (
	// mostChunk is a chunk's size where the server takes so much; beside it is what
	// a message has beside its payload. An object of several has none below leastChunk.
	mostChunk, beside, leastChunk = 512 << 10, 4 << 10, 256
	// chunksAtOnce are those of one object that are asked for at a time.
	chunksAtOnce = 4
	// putWithin and getWithin bound what the server takes for an object, removeWithin for a group.
	putWithin, getWithin, removeWithin = 2 * time.Second, time.Second, 5 * time.Second
)

// header is where the first chunk has an object's bytes and digest.
const header = "Switchyard-Object"

func (s *ObjectStore) subject(name string, chunk int) string {
	return s.prefix + name + "." + strconv.Itoa(chunk)
}

// Put implements transfer.Objects.
func (s *ObjectStore) Put(ctx context.Context, name string, data []byte, sum Sum) error {
	ctx, cancel := context.WithTimeout(ctx, putWithin)
	defer cancel()
	size := int(max(leastChunk, min(mostChunk, s.conn.MaxPayload()-beside)))
	n := max(1, (len(data)+size-1)/size)
	about := nats.Header{header: {fmt.Sprintf("%d %d %s", len(data), size, hex.EncodeToString(sum[:]))}}
	stored := make(chan error, n)
	for i := n - 1; i >= 0; i-- {
		h := about
		if i > 0 {
			h = nil
		}
		part := data[i*size : min((i+1)*size, len(data))]
		err := s.conn.StoreAsync(ctx, s.subject(name, i), part, h, func(_ uint64, err error) { stored <- err })
		if err != nil {
			return refined(err)
		}
	}
	for range n {
		select {
		case err := <-stored:
			if err != nil {
				return refined(err)
			}
		case <-ctx.Done():
			return fmt.Errorf("%w in %v", ErrNoStore, putWithin)
		}
	}
	return nil
}

// refined tells a full store from one that does not answer.
func refined(err error) error {
	if bus.IsNoRoom(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("%w: %w", ErrNoStore, err)
}

// Get implements transfer.Objects.
func (s *ObjectStore) Get(ctx context.Context, name string, most int) ([]byte, Sum, error) {
	ctx, cancel := context.WithTimeout(ctx, getWithin)
	defer cancel()
	first, err := s.read(ctx, name, 0)
	if err != nil {
		return nil, Sum{}, err
	}
	size, chunk, sum, err := parse(first.Header.Get(header), most)
	if err != nil {
		return nil, sum, err
	}
	data := first.Data
	if size > len(data) {
		if data, err = s.rest(ctx, name, data, size, chunk); err != nil {
			return nil, sum, err
		}
	}
	if len(data) != size || sha256.Sum256(data) != sum {
		return nil, sum, ErrCorrupt
	}
	return data, sum, nil
}

func (s *ObjectStore) rest(ctx context.Context, name string, first []byte, size, chunk int) ([]byte, error) {
	if len(first) != chunk {
		return nil, ErrCorrupt
	}
	data, n := make([]byte, size), (size+chunk-1)/chunk
	copy(data, first)
	errs := make([]error, n)
	parallel.Each(chunksAtOnce, 1, n, func(i int) {
		m, err := s.read(ctx, name, i)
		into := data[i*chunk : min((i+1)*chunk, size)]
		switch {
		case err != nil:
			errs[i] = err
		case len(m.Data) != len(into):
			errs[i] = ErrCorrupt
		default:
			copy(into, m.Data)
		}
	})
	return data, errors.Join(errs...)
}

func (s *ObjectStore) read(ctx context.Context, name string, chunk int) (*nats.Msg, error) {
	m, err := s.conn.Direct(ctx, s.stream, s.subject(name, chunk))
	switch {
	case errors.Is(err, bus.ErrNoMessage):
		return nil, fmt.Errorf("%w (chunk %d)", ErrMissing, chunk)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	return m, nil
}

// parse reads what a first chunk says of its object.
func parse(text string, most int) (size, chunk int, sum Sum, err error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return 0, 0, sum, fmt.Errorf("%w: it says %.80q of itself", ErrCorrupt, text)
	}
	size, errSize := strconv.Atoi(fields[0])
	chunk, errChunk := strconv.Atoi(fields[1])
	digest, errSum := hex.DecodeString(fields[2])
	if errSize != nil || errChunk != nil || errSum != nil || size < 0 || size > most || chunk < leastChunk || len(digest) != len(sum) {
		return 0, 0, sum, fmt.Errorf("%w: it says %.80q of itself, and may have %d bytes", ErrCorrupt, text, most)
	}
	return size, chunk, Sum(digest), nil
}

// Remove implements transfer.Objects.
func (s *ObjectStore) Remove(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	return s.conn.Purge(ctx, s.stream, s.prefix+group+".>")
}
