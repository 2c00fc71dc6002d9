package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

// Who makes streams: on a server without users everybody who misses one; on one with users
// the setup alone, as who may make a stream may have it take in whatever anybody sends. A
// user who was refused once does not try again on this connection. What he misses he waits
// for, at a start for makersWithin, and later for as long as it takes.

// makersWithin is how long a service that starts waits for streams that others make.
const makersWithin = time.Minute

// makeStream makes a stream that is not there, or returns the one that a sibling has just made,
// otherwise than wanted.
func (c *Conn) makeStream(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	if c.barred.Load() {
		return nil, c.lacks(want.Name)
	}
	if err := c.missingStream(want.Name); err != nil && want.Storage == jetstream.FileStorage {
		return nil, err
	}
	stream, err := c.create(ctx, stamped(want, c.release))
	if hasCode(err, codeNoCluster) && c.guessesCopies() { // what the server is of told nothing of JetStream
		c.alone.Store(true)
		want.Replicas = 1
		stream, err = c.create(ctx, stamped(want, c.release))
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
		return c.js.Stream(ctx, want.Name)
	case err != nil && c.barred.Load(): // the server has just said so; a request hears nothing of it
		return nil, c.lacks(want.Name)
	}
	return stream, err
}

// mend changes of a stream what it may, and returns what it has changed and what is left.
// Who may not change streams leaves all.
func (c *Conn) mend(ctx context.Context, have, want jetstream.StreamConfig, upTo Cure) (mended, left []Difference, err error) {
	if want.Replicas > 1 && c.guessesCopies() {
		want.Replicas = have.Replicas
	}
	to, mended, left := Mend(have, want, upTo)
	if len(mended) == 0 {
		return nil, left, nil
	}
	if newer(have, c.release) != "" && !speaksLater(have) {
		return nil, left, nil // who goes back to this release leaves it so: what a service mends it can do without for a while
	}
	if speaksLater(have) || c.barred.Load() || c.changesNone.Load() {
		return nil, append(mended, left...), nil
	}
	subject, begun := apiPrefix(c.js)+updateCall+want.Name, time.Now()
	if _, err = c.js.UpdateStream(ctx, stamped(to, c.release)); err == nil {
		c.log.Info("a stream was changed", "stream", want.Name, "had", mended)
		return mended, left, nil
	}
	if c.denials.of(begun, subject) != nil {
		c.changesNone.Store(true)
		return nil, append(mended, left...), nil
	}
	return nil, left, fmt.Errorf("changing stream %s, which has %v: %w", want.Name, mended, err)
}

func (c *Conn) mismatch(have jetstream.StreamConfig, left []Difference) error {
	if len(left) == 0 {
		return nil
	}
	return &MismatchError{Differences: left, Newer: newer(have, c.release)}
}

// The calls of JetStream's API that a user who makes no streams may not use.
const createCall, updateCall, deleteCall = "STREAM.CREATE.", "STREAM.UPDATE.", "STREAM.DELETE."

// isMaking reports whether a complaint is that this user makes no streams, and takes it in:
// most users do not, and what follows from it is told as what is missing.
func (c *Conn) isMaking(complaint error) bool {
	words, api := complaint.Error(), apiPrefix(c.js)
	about := func(call string) bool { return strings.Contains(words, `"`+api+call) }
	switch {
	case about(createCall), about(deleteCall):
		c.barred.Store(true)
	case !about(updateCall):
		return false
	}
	c.denials.add(complaint, time.Now())
	return true
}

// lacks notes that a stream is missing which others make.
func (c *Conn) lacks(stream string) error {
	c.mu.Lock()
	c.lacking[stream] = time.Now()
	c.mu.Unlock()
	return &MissingError{Streams: []string{stream}}
}

// lackedFor is longer than whoever misses a stream waits before he looks again.
const lackedFor = 10 * time.Second

// lacksAny is an error while streams are missing which others make.
func (c *Conn) lacksAny() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.lacking, func(_ string, at time.Time) bool { return time.Since(at) > lackedFor })
	if len(c.lacking) == 0 {
		return nil
	}
	return &MissingError{Streams: slices.Sorted(maps.Keys(c.lacking))}
}

// Metadata of streams: who has made or changed them last.
const metaRelease, metaSchema = "switchyard-release", "switchyard-schema"

// stamped says in a stream's metadata who makes or changes it.
func stamped(cfg jetstream.StreamConfig, release string) jetstream.StreamConfig {
	cfg.Metadata = maps.Clone(cfg.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[metaRelease], cfg.Metadata[metaSchema] = release, strconv.Itoa(schemas.Version)
	return cfg
}

// newer is the release that has made or changed a stream last, where it is later than this
// one: it speaks a later version of messages, or its tag is a later one. Empty: it is not.
func newer(have jetstream.StreamConfig, release string) string {
	theirs := have.Metadata[metaRelease]
	if speaksLater(have) {
		return cmp.Or(theirs, "of schema version "+have.Metadata[metaSchema])
	}
	if later(theirs, release) {
		return theirs
	}
	return ""
}

// speaksLater reports whether a stream is for messages of a later version.
func speaksLater(have jetstream.StreamConfig) bool {
	version, err := strconv.Atoi(have.Metadata[metaSchema])
	return err == nil && version > schemas.Version
}

// described is a release's tag, and how many commits lie behind it, as git tells them.
var described = regexp.MustCompile(`^v(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:-(\d{1,6})-g[0-9a-f]+)?(?:-dirty)?$`)

// later reports whether a release is known to come behind another one.
func later(release, than string) bool {
	a, b := described.FindStringSubmatch(release), described.FindStringSubmatch(than)
	if a == nil || b == nil {
		return false
	}
	number := func(text string) int { n, _ := strconv.Atoi(text); return n } // none is 0
	return slices.CompareFunc(a[1:], b[1:], func(x, y string) int { return cmp.Compare(number(x), number(y)) }) > 0
}
