package weights

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// PushSettings are how models are put into the store.
type PushSettings struct {
	// Replicas of the bucket's stream; 0 is one on one server, three on a cluster.
	Replicas int
	// Progress, if set, hears how many bytes are in the store, and how many of them
	// were there before. Calls come one after the other.
	Progress func(done, before, total int64)
}

var (
	// ErrFull says that the server has no room.
	ErrFull = errors.New("the object store is full; remove models with switchyard weights rm, or raise the server's max_file_store or the bucket's max_bytes")
	// ErrOther says that the name belongs to other weights.
	ErrOther = errors.New("the object store has another model of that name; remove it with switchyard weights rm, or choose another --name")
	// ErrMeanwhile says that somebody else writes to the bucket.
	ErrMeanwhile = errors.New("its chunks were changed meanwhile; does another client push this model? Push it again")
)

const (
	// pushers send objects side by side, each a chunk at a time.
	pushers = 4
	// mostChunk is a chunk's size where the server takes so much; beside it is what
	// a message has beside its payload.
	mostChunk, beside = 512 << 10, 4 << 10
)

type pushing struct {
	*Store
	settings PushSettings
	chunk    int
	id       string // tells this push's messages from an earlier one's
	objects  []digest.Object

	mu                  sync.Mutex
	done, before, total int64
}

// Push puts a model into the store: the contents that are not there yet, and then
// the manifest.
func (s *Store) Push(ctx context.Context, identity string, tensors []digest.Tensor, contents []model.Content, settings PushSettings) error {
	p := &pushing{Store: s, settings: settings, id: nuid.Next(), objects: make([]digest.Object, len(contents))}
	if p.chunk = int(min(mostChunk, s.conn.MaxPayload()-beside)); p.chunk < 1 {
		return fmt.Errorf("the NATS server takes messages of %d bytes; raise max_payload to at least %d", s.conn.MaxPayload(), 2*beside)
	}
	if err := s.conn.EnsureObjects(ctx, settings.Replicas, s.bucket); err != nil {
		return refined(err)
	}
	if err := p.checkIdentity(ctx, identity); err != nil {
		return err
	}
	err := p.pushOnce(ctx, identity, tensors, contents)
	if errors.Is(err, ErrMeanwhile) { // what a push that was interrupted had under way may have come only now
		p.id, p.settings.Progress = nuid.Next(), nil // all has been told
		err = p.pushOnce(ctx, identity, tensors, contents)
	}
	return refined(err)
}

// pushOnce sends what is missing, and then the manifest.
func (p *pushing) pushOnce(ctx context.Context, identity string, tensors []digest.Tensor, contents []model.Content) error {
	if err := p.sendAll(ctx, contents); err != nil {
		return err
	}
	return p.finish(ctx, &digest.Manifest{Format: digest.ManifestFormat, Model: identity, Tensors: tensors, Objects: p.objects})
}

// refined says of a full store what to do.
func refined(err error) error {
	if err != nil && bus.IsNoRoom(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// checkIdentity refuses to mix two models.
func (p *pushing) checkIdentity(ctx context.Context, identity string) error {
	m, err := p.Manifest(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case isNotWhole(err): // there is none that anybody could use
		return nil
	case err != nil:
		return err
	case m.Model != identity:
		return fmt.Errorf("model %s: %w", p.model, ErrOther)
	}
	return nil
}

// sendAll sends what is missing, some objects side by side.
func (p *pushing) sendAll(ctx context.Context, contents []model.Content) error {
	have, err := p.have(ctx)
	if err != nil {
		return err
	}
	for _, u := range contents {
		p.total += u.Bytes
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(pushers, len(contents)) {
		all.Go(func() {
			for at := int(next.Add(1) - 1); at < len(contents) && ctx.Err() == nil; at = int(next.Add(1) - 1) {
				var err error
				if p.objects[at], err = p.sendOne(ctx, contents[at], have); err != nil {
					cancel(p.wrap(contents[at].Name, err))
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// sendOne skips what is there.
func (p *pushing) sendOne(ctx context.Context, u model.Content, have map[string]digest.Object) (digest.Object, error) {
	if o, ok := have[u.Name]; ok && o.Key == u.Key && o.Bytes == u.Bytes {
		p.tell(u.Bytes, u.Bytes)
		return o, nil
	}
	return p.send(ctx, u)
}

func (p *pushing) tell(done, before int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.before = p.done+done, p.before+before
	if p.settings.Progress != nil {
		p.settings.Progress(p.done, p.before, p.total)
	}
}

// have lists the objects of which all chunks are there.
func (p *pushing) have(ctx context.Context) (map[string]digest.Object, error) {
	counts, _, err := p.conn.Subjects(ctx, p.stream(), "$O."+p.bucket+".>")
	if err != nil {
		return nil, err
	}
	metas := 0
	for subject := range counts {
		if strings.HasPrefix(subject, p.meta("")) {
			metas++
		}
	}
	have := map[string]digest.Object{}
	if metas == 0 {
		return have, nil
	}
	err = p.follow(ctx, p.meta("")+">", func(m bus.Stored) bool {
		if o, err := parseInfo(nameOf(m.Subject), m.Data); err == nil && counts[p.chunks(o.Key)] == uint64(o.Chunks) {
			have[o.Name] = o
		}
		metas--
		return metas > 0
	})
	return have, err
}

// send puts one object into the store, in place of what is left of it.
func (p *pushing) send(ctx context.Context, u model.Content) (o digest.Object, err error) {
	r, err := u.Open()
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := p.conn.Purge(ctx, p.stream(), p.chunks(u.Key)); err != nil {
		return o, err
	}
	o = digest.Object{Name: u.Name, Key: u.Key}
	if err := p.sendChunks(ctx, &o, r); err != nil {
		return o, err
	}
	if o.Bytes != u.Bytes {
		return o, fmt.Errorf("it has %d bytes, and had %d before; do not change a model that is pushed", o.Bytes, u.Bytes)
	}
	info, err := p.encodeInfo(o, p.chunk)
	if err != nil {
		return o, err
	}
	_, err = p.conn.StoreBytes(ctx, p.meta(o.Name), info, nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}})
	return o, err
}

// sendChunks fills what is known of the object when it is read.
func (p *pushing) sendChunks(ctx context.Context, o *digest.Object, r io.Reader) error {
	h, buf := sha256.New(), make([]byte, p.chunk)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			h.Write(buf[:n])
			// An acknowledgement may be lost; the id lets the server drop the repeat.
			id := nats.Header{jetstream.MsgIDHeader: {p.id + "." + o.Key + "." + strconv.Itoa(o.Chunks)}}
			if _, err := p.conn.StoreBytes(ctx, p.chunks(o.Key), buf[:n], id); err != nil {
				return err
			}
			o.Bytes, o.Chunks = o.Bytes+int64(n), o.Chunks+1
			p.tell(int64(n), 0)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			h.Sum(o.Sum[:0])
			return nil
		case err != nil:
			return err
		}
	}
}

// finish looks whether everything is there, removes what is of no model, and
// writes the manifest.
func (p *pushing) finish(ctx context.Context, m *digest.Manifest) error {
	data, err := m.Encode()
	if err != nil {
		return err
	}
	counts, _, err := p.conn.Subjects(ctx, p.stream(), "$O."+p.bucket+".>")
	if err != nil {
		return err
	}
	for _, o := range m.Objects {
		if counts[p.chunks(o.Key)] != uint64(o.Chunks) {
			return p.wrap(o.Name, ErrMeanwhile)
		}
		delete(counts, p.chunks(o.Key))
		delete(counts, p.meta(o.Name))
	}
	key := digest.KeyOf(sha256.Sum256(data))
	delete(counts, p.chunks(key))
	delete(counts, p.meta(manifestObject))
	for subject := range counts {
		if err := p.conn.Purge(ctx, p.stream(), subject); err != nil {
			return err
		}
	}
	if o, err := p.manifestInfo(ctx); err == nil && o.Key == key {
		return nil // the push found nothing to do
	}
	p.settings.Progress = nil // the manifest is not of the model
	_, err = p.send(ctx, model.Content{
		Name: manifestObject, Key: key, Bytes: int64(len(data)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
	})
	return p.wrap(manifestObject, err)
}

// nameOf is the object that a subject of what is known of it is about; empty if none.
func nameOf(subject string) string {
	name, err := base64.URLEncoding.DecodeString(schemas.LastToken(subject))
	if err != nil {
		return ""
	}
	return string(name)
}
