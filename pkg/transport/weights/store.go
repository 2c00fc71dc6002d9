package weights

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

var (
	// ErrNoModel says that a whole model of that name is not in the store.
	ErrNoModel = errors.New("no whole model of that name is in the object store; put it there with switchyard weights push")
	// ErrMissing says that an object has not the chunks that the manifest lists.
	ErrMissing = errors.New("its chunks are not those of the manifest: the model was removed, or another one took its name; push it again")
	// ErrDamaged says that an object is not what the manifest says.
	ErrDamaged = errors.New("its content does not have the digest of the manifest; remove the model and push it again")
	// ErrSlow says that nothing came for a while.
	ErrSlow = errors.New("the object store does not answer")
)

// ObjectError says which object of which model something is about.
type ObjectError struct {
	Model, Object string
	Err           error
}

func (e *ObjectError) Error() string {
	return fmt.Sprintf("object %s of model %s: %v", e.Object, e.Model, e.Err)
}

func (e *ObjectError) Unwrap() error { return e.Err }

// Store is a model's place in the object store.
type Store struct {
	conn   *bus.Conn
	model  string
	bucket string
	// patience is how long nothing may come before that is ErrSlow.
	patience time.Duration
}

const patience = 10 * time.Second

// manifestObject is the name of the object that is written last.
const manifestObject = "manifest"

// New is the place of the model of that name; nothing is asked yet.
func New(conn *bus.Conn, prefix, model string) *Store {
	names := schemas.Streams{Subjects: schemas.NewSubjects(prefix, model)}
	return &Store{conn: conn, model: names.Subjects.Model, bucket: names.Bucket(bucketKind), patience: patience}
}

const bucketKind = "weights"

// maxName bounds a model's name in bytes.
const maxName = schemas.MaxModelToken

// CheckName refuses a name that no model in the store has. It is not made to fit:
// who removes a.b must not remove a_b.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || schemas.ModelToken(name) != name {
		return fmt.Errorf("%.80q is no name of a model in the object store; use 1 to %d letters, digits, _ and -", name, maxName)
	}
	return nil
}

func (s *Store) stream() string { return "OBJ_" + s.bucket }

// chunks is the subject of an object's chunks, meta that of what is known of it.
func (s *Store) chunks(key string) string { return "$O." + s.bucket + ".C." + key }

func (s *Store) meta(name string) string {
	return "$O." + s.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// Manifest reads what the model consists of.
func (s *Store) Manifest(ctx context.Context) (*digest.Manifest, error) {
	o, err := s.manifestInfo(ctx)
	if err != nil {
		return nil, s.wrap(manifestObject, err)
	}
	if o.Bytes > digest.MaxManifest {
		return nil, s.wrap(manifestObject, fmt.Errorf("%w: it has %d bytes, more than %d", digest.ErrBadManifest, o.Bytes, digest.MaxManifest))
	}
	data, err := s.Read(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	m, err := digest.ParseManifest(data)
	return m, s.wrap(manifestObject, err)
}

// isNotWhole says that an error of Manifest means that nobody can use what the
// store has. Any other, such as of a slow store or a missing permission, leaves open
// what is there.
func isNotWhole(err error) bool {
	return errors.Is(err, ErrNoModel) || errors.Is(err, ErrMissing) || errors.Is(err, ErrDamaged) || errors.Is(err, digest.ErrBadManifest)
}

func (s *Store) wrap(object string, err error) error {
	if err == nil {
		return nil
	}
	return &ObjectError{Model: s.model, Object: object, Err: err}
}

// manifestInfo is what the store knows of the manifest.
func (s *Store) manifestInfo(ctx context.Context) (digest.Object, error) {
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	m, err := s.conn.Last(waiting, s.stream(), s.meta(manifestObject))
	switch {
	case errors.Is(err, bus.ErrNoMessage), isNoStream(err):
		return digest.Object{}, ErrNoModel
	case err != nil && waiting.Err() != nil && ctx.Err() == nil:
		return digest.Object{}, fmt.Errorf("%w: %w", ErrSlow, err)
	case err != nil:
		return digest.Object{}, err
	}
	o, err := parseInfo(manifestObject, m.Data)
	if err != nil {
		return o, fmt.Errorf("%w: %w", digest.ErrBadManifest, err)
	}
	return o, nil
}

func isNoStream(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNotFound
}

// Read returns an object's bytes, when they are what the manifest says: in into, if that is large enough.
func (s *Store) Read(ctx context.Context, o digest.Object, into []byte) ([]byte, error) {
	data, err := s.read(ctx, o, into)
	return data, s.wrap(o.Name, err)
}

func (s *Store) read(ctx context.Context, o digest.Object, into []byte) ([]byte, error) {
	if err := s.present(ctx, o); err != nil {
		return nil, err
	}
	data, sum, err := s.collect(ctx, o, into)
	if err != nil {
		return nil, err
	}
	if sum != o.Sum {
		return nil, ErrDamaged
	}
	return data, nil
}

// present checks that an object's chunks are there, and that the store can hold its
// bytes: so much is allocated before the first of them comes.
func (s *Store) present(ctx context.Context, o digest.Object) error {
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	counts, stored, err := s.conn.Subjects(waiting, s.stream(), s.chunks(o.Key))
	switch have := counts[s.chunks(o.Key)]; {
	case isNoStream(err):
		return ErrNoModel
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrSlow, err)
	case have != uint64(o.Chunks):
		return fmt.Errorf("%w: there are %d instead of %d", ErrMissing, have, o.Chunks)
	case uint64(o.Bytes) > stored:
		return fmt.Errorf("%w: all that is stored for the model are %d bytes, and it claims %d", ErrDamaged, stored, o.Bytes)
	}
	return nil
}

// collect joins the chunks. Another goroutine hashes them, which takes as long as all the rest.
func (s *Store) collect(ctx context.Context, o digest.Object, into []byte) (data []byte, sum digest.Sum, err error) {
	if o.Chunks == 0 {
		return nil, sha256.Sum256(nil), nil
	}
	if data = into[:0]; int64(cap(data)) < o.Bytes {
		data = cpu.Buffer(int(o.Bytes))[:0]
	}
	h, chunks, hashed := sha256.New(), make(chan []byte, o.Chunks), make(chan struct{})
	go func() {
		defer close(hashed)
		for chunk := range chunks {
			h.Write(chunk)
		}
	}()
	err = func() error {
		defer close(chunks)
		left := o.Chunks
		return s.follow(ctx, s.chunks(o.Key), func(m bus.Stored) bool {
			if int64(len(data)+len(m.Data)) > o.Bytes {
				return false // what was read has another digest
			}
			data = append(data, m.Data...)
			chunks <- data[len(data)-len(m.Data):]
			left--
			return left > 0
		})
	}()
	<-hashed
	h.Sum(sum[:0])
	return data, sum, err
}

// follow is the connection's Follow, but ends with ErrSlow when nothing comes.
func (s *Store) follow(ctx context.Context, subject string, fn func(bus.Stored) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(s.patience, func() { cancel(ErrSlow) })
	defer silence.Stop()
	err := s.conn.Follow(ctx, s.stream(), []string{subject}, bus.Place{}, func(m bus.Stored) bool {
		silence.Reset(s.patience)
		return fn(m)
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
