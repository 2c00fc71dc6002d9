package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
)

// Bucket is a key-value bucket that knows its connection.
type Bucket struct {
	jetstream.KeyValue
	conn *Conn
}

// EnsureBucket returns a key-value bucket, a *Bucket, and creates it if it does
// not exist, as Persist does. With a ttl, keys go by themselves when they have not been written
// for so long. With keys it has these alone: nothing else that is sent to its subjects is
// stored, so that nothing can push them out.
func (c *Conn) EnsureBucket(ctx context.Context, replicas int, name string, ttl time.Duration, keys ...string) (jetstream.KeyValue, error) {
	c.replicas.Store(int64(replicas))
	b := &Bucket{conn: c}
	err := c.Persist(ctx, "creating the key-value bucket "+name, func(ctx context.Context) (err error) {
		b.KeyValue, err = c.ensureBucket(ctx, name, ttl, keys)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (c *Conn) ensureBucket(ctx context.Context, name string, ttl time.Duration, keys []string) (jetstream.KeyValue, error) {
	kv, err := c.js.KeyValue(ctx, name)
	if err == nil {
		c.foundStream(schemas.BucketStream(name))
		return kv, c.addKeys(ctx, name, keys)
	}
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	want := bucketConfig(name, ttl, c.streamReplicas(), keys)
	_, err = c.makeStream(ctx, want)
	if hasCode(err, codeMaxConsumers) { // the account allows a stream fewer
		want.MaxConsumers = -1
		_, err = c.makeStream(ctx, want)
	}
	if err != nil {
		return nil, err
	}
	return c.js.KeyValue(ctx, name)
}

// addKeys gives a bucket the keys that it lacks, as when its model has more layers than
// the one before. One of an older version takes any.
func (c *Conn) addKeys(ctx context.Context, name string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	stream, err := c.js.Stream(ctx, schemas.BucketStream(name))
	if err != nil {
		return err
	}
	have := stream.CachedInfo().Config
	want := have // but for its keys: what else an older version has made otherwise stays
	want.Subjects, want.MaxMsgSize = keySubjects(name, keys), valueBytes(len(keys))
	_, left, err := c.mend(ctx, have, want, ByService)
	return errors.Join(err, c.mismatch(have, left))
}

// bucketConfig is a bucket as the client library makes it, but that a full one drops
// its oldest keys: it goes on taking what is renewed, whoever filled it. One with keys of
// its own cannot get full, and no message takes the place of all others there.
func bucketConfig(name string, ttl time.Duration, replicas int, keys []string) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name: schemas.BucketStream(name), Subjects: []string{KeySubject(name, ">")}, Storage: jetstream.FileStorage, Replicas: replicas,
		MaxMsgsPerSubject: 1, MaxAge: ttl, MaxBytes: schemas.BucketBytes, Discard: jetstream.DiscardOld,
		MaxConsumers: mostFollowers, AllowRollup: true, DenyDelete: true, AllowDirect: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: markerTTL,
	}
	if len(keys) > 0 {
		cfg.Subjects, cfg.MaxMsgSize = keySubjects(name, keys), valueBytes(len(keys))
		cfg.AllowRollup, cfg.AllowMsgTTL, cfg.SubjectDeleteMarkerTTL = false, false, 0
	}
	return cfg
}

// mostFollowers of a bucket may there be: each host follows plans, and the server's own bound is 1,000
// consumers a stream.
const mostFollowers = 8192

func keySubjects(bucket string, keys []string) []string {
	subjects := make([]string, len(keys))
	for i, key := range keys {
		subjects[i] = KeySubject(bucket, key)
	}
	return subjects
}

// aboutValue is more than the server stores beside a value.
const aboutValue = 1 << 10

// valueBytes is the largest value of a bucket of so many keys: all of them fit.
func valueBytes(keys int) int32 { return int32(schemas.BucketBytes/keys - aboutValue) } //nolint:gosec // it is less than BucketBytes

// AsBucket returns the Bucket behind what EnsureBucket returned.
func AsBucket(kv jetstream.KeyValue) (*Bucket, error) {
	if b, ok := kv.(*Bucket); ok {
		return b, nil
	}
	return nil, fmt.Errorf("bucket %s is a %T; open it with bus.EnsureBucket", kv.Bucket(), kv)
}

// Conn is the bucket's connection.
func (b *Bucket) Conn() *Conn { return b.conn }

// Names lists the keys as the server tells them of the bucket's stream, for who may not
// follow it.
func (b *Bucket) Names(ctx context.Context) ([]string, error) {
	stream, err := b.conn.js.Stream(ctx, schemas.BucketStream(b.Bucket()))
	if err != nil {
		return nil, fmt.Errorf("listing the keys of bucket %s: %w", b.Bucket(), err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(KeySubject(b.Bucket(), ">")))
	if err != nil {
		return nil, fmt.Errorf("listing the keys of bucket %s: %w", b.Bucket(), err)
	}
	var keys []string
	for subject := range info.State.Subjects {
		keys = append(keys, subject[len(KeySubject(b.Bucket(), "")):])
	}
	slices.Sort(keys)
	return keys, nil
}

// LastRevision is the revision of the newest write to the bucket, whatever
// became of the key.
func (b *Bucket) LastRevision(ctx context.Context) (uint64, error) {
	state, err := stateOf(ctx, b)
	return state.LastSeq, err
}

// stateOf is what the server tells of the bucket's stream.
func stateOf(ctx context.Context, kv jetstream.KeyValue) (state jetstream.StreamState, err error) {
	status, err := kv.Status(ctx)
	if err != nil {
		return state, fmt.Errorf("reading the state of bucket %s: %w", kv.Bucket(), err)
	}
	s, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return state, fmt.Errorf("the state of bucket %s is a %T", kv.Bucket(), status)
	}
	return s.StreamInfo().State, nil
}

// KeySubject is the subject that a key is stored under; key may be ">" for all.
func KeySubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// EraseKey deletes a key and does not wait for it.
func (c *Conn) EraseKey(ctx context.Context, bucket, key string) error {
	return c.SendBytes(ctx, c.KeyTo(bucket, key), nil, nats.Header{"KV-Operation": {"DEL"}})
}

// markerTTL is how long the mark of a key that Clear has removed stays.
const markerTTL = time.Minute

// Clear removes a key for good, and does not wait for it. Followers are told; soon
// nothing is left of the key, so that keys of replicas do not gather.
func (b *Bucket) Clear(ctx context.Context, key string) error {
	return b.conn.SendBytes(ctx, b.conn.KeyTo(b.Bucket(), key), nil, nats.Header{
		"KV-Operation": {"PURGE"}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}, jetstream.MsgTTLHeader: {markerTTL.String()},
	})
}

// Store writes a key when it can, or until ctx ends or the user has no right to; it returns
// the revision.
func (b *Bucket) Store(ctx context.Context, key string, value []byte) (revision uint64, err error) {
	subject := b.conn.KeyTo(b.Bucket(), key)
	err = b.conn.insist(ctx, "writing key "+key+" of bucket "+b.Bucket(), func() (err error) {
		begun := time.Now()
		revision, err = b.conn.storeOnce(ctx, subject, value, nil)
		if denied := b.conn.denials.of(begun, subject); err != nil && denied != nil {
			return denied
		}
		return err
	})
	b.conn.refusedKey(subject, err)
	return revision, err
}

// Replace writes a key whose newest revision is known, and does not wait for it. done is
// told the new revision, or why there is none (see StoreAsync): writes are stored in the
// order of their calls.
func (b *Bucket) Replace(ctx context.Context, key string, value []byte, revision uint64, done func(revision uint64, err error)) error {
	behind := nats.Header{nats.ExpectedLastSubjSeqHdr: {strconv.FormatUint(revision, 10)}}
	return b.conn.StoreAsync(ctx, b.conn.KeyTo(b.Bucket(), key), value, behind, done)
}

// Renew writes a key that is written again soon, and waits for nothing. Whether it
// is stored tells the connection what its server is worth; done is told, as of StoreAsync.
func (b *Bucket) Renew(ctx context.Context, key string, m proto.Message, done func(error)) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding key %s of bucket %s: %w", key, b.Bucket(), err)
	}
	subject := b.conn.KeyTo(b.Bucket(), key)
	return b.conn.StoreAsync(ctx, subject, data, nil, func(_ uint64, err error) {
		b.conn.refusedKey(subject, err)
		done(err)
	})
}

// Follow calls fn with the newest value of each key, and then with every further
// write, in their order and without a gap, until ctx ends. The value of a key that
// was deleted is empty. ErrReplaced says that the bucket was made anew: begin again.
// With patterns of keys, of which no two may match the same key, it does so for these alone.
func (b *Bucket) Follow(ctx context.Context, fn func(key string, value []byte, revision uint64), keys ...string) error {
	if len(keys) == 0 {
		keys = []string{">"}
	}
	prefix := len(KeySubject(b.Bucket(), ""))
	return b.conn.Follow(ctx, schemas.BucketStream(b.Bucket()), keySubjects(b.Bucket(), keys), Place{}, func(m Stored) bool {
		fn(m.Subject[prefix:], m.Data, m.Sequence)
		return true
	})
}

// FollowKeys calls handler, one call at a time, for every write of a key from
// now on; key may be ">" for all. deleted says that the write is a deletion.
// Unlike a watcher it has no state in the server that a restart could lose,
// and sees writes at once; whether they were stored is not known here.
func (c *Conn) FollowKeys(bucket, key string, handler func(key string, value []byte, deleted bool)) (stop func(), err error) {
	if c.keysBehind != "" {
		return c.followStored(bucket, key, handler), nil
	}
	prefix := len(KeySubject(bucket, ""))
	sub, err := c.Subscribe(KeySubject(bucket, key), "", func(m *nats.Msg) {
		handler(m.Subject[prefix:], m.Data, m.Header.Get("KV-Operation") != "")
	})
	if err != nil {
		return nil, fmt.Errorf("following key %s of bucket %s: %w", key, bucket, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails when the connection is closed
}
