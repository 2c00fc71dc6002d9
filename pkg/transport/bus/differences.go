package bus

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Cure is who may mend a difference.
type Cure uint8

// The cures, each taking in those before it.
const (
	// ByService loses nothing, and this version needs it: a service that may change
	// streams does it.
	ByService Cure = iota
	// BySetup loses nothing. It is what an operator has set, so that the operator's
	// setup does it, and no service.
	BySetup
	// ByChange may lose what the stream holds, or nobody knows why the stream is so: an
	// operator is to name the stream.
	ByChange
	// ByRemake loses all that the stream holds: it cannot be changed so.
	ByRemake
)

// Difference is a field in which a stream is not what is wanted.
type Difference struct {
	Stream, Field, Have, Want string
	Cure                      Cure
	Memory                    bool // the stream is of tensors
}

// Tensors stands for all streams in memory.
const Tensors = "tensors"

// String has both values.
func (d Difference) String() string {
	return fmt.Sprintf("%s %s where %s is wanted", d.Field, d.Have, d.Want)
}

// Command mends it, with the flags that the services have.
func (d Difference) Command() string {
	switch d.Cure {
	case ByChange:
		return "switchyard setup --change " + d.Stream
	case ByRemake:
		if d.Memory {
			return "switchyard setup --remake " + Tensors
		}
		return "switchyard setup --remake " + d.Stream
	}
	return "switchyard setup"
}

// Mend makes of what a stream is what it may be changed to: all wanted fields whose cure is
// not beyond upTo. left are the differences that stay.
func Mend(have, want jetstream.StreamConfig, upTo Cure) (to jetstream.StreamConfig, mended, left []Difference) {
	to, want = have, fitted(have, want)
	for _, f := range fields {
		was, is := f.show(have), f.show(want)
		if was == is {
			continue
		}
		d := Difference{Stream: want.Name, Field: f.name, Have: was, Want: is, Cure: f.cure(have, want), Memory: want.Storage == jetstream.MemoryStorage}
		if d.Cure > upTo || f.set == nil {
			left = append(left, d)
			continue
		}
		mended = append(mended, d)
		f.set(&to, want)
	}
	return to, mended, left
}

// Fields that a service can do without.
const (
	messageBytes = "maximum bytes of a message"
	copyWindow   = "window of copies"
)

// config is short for a stream's settings.
type config = jetstream.StreamConfig

type field struct {
	name string
	show func(config) string
	cure func(have, want config) Cure
	set  func(to *config, want config) // nil: it cannot be changed
}

var fields = []field{
	{
		"subjects", func(c config) string { return fmt.Sprint(slices.Sorted(slices.Values(c.Subjects))) },
		func(have, want config) Cure { return lossless(gained(have.Subjects, want.Subjects), ByService) },
		func(to *config, want config) { to.Subjects = want.Subjects },
	},
	{"retention", func(c config) string { return c.Retention.String() }, is(ByRemake), nil},
	{"storage", func(c config) string { return c.Storage.String() }, is(ByRemake), nil},
	{
		"discard policy", func(c config) string { return c.Discard.String() }, is(BySetup),
		func(to *config, want config) { to.Discard = want.Discard },
	},
	{
		"maximum age", func(c config) string { return c.MaxAge.String() },
		func(have, want config) Cure { return raised(int64(have.MaxAge), int64(want.MaxAge)) },
		func(to *config, want config) { to.MaxAge = want.MaxAge },
	},
	{
		"maximum bytes", func(c config) string { return bound(c.MaxBytes) },
		func(have, want config) Cure { return raised(have.MaxBytes, want.MaxBytes) },
		func(to *config, want config) { to.MaxBytes = want.MaxBytes },
	},
	{
		"maximum messages of a subject", func(c config) string { return bound(c.MaxMsgsPerSubject) },
		func(have, want config) Cure { return raised(have.MaxMsgsPerSubject, want.MaxMsgsPerSubject) },
		func(to *config, want config) { to.MaxMsgsPerSubject = want.MaxMsgsPerSubject },
	},
	{
		"maximum messages", func(c config) string { return bound(c.MaxMsgs) }, is(ByService),
		func(to *config, want config) { to.MaxMsgs = want.MaxMsgs },
	},
	{
		messageBytes, func(c config) string { return bound(int64(c.MaxMsgSize)) }, is(ByService),
		func(to *config, want config) { to.MaxMsgSize = want.MaxMsgSize },
	},
	{
		"rollups allowed:", func(c config) string { return strconv.FormatBool(c.AllowRollup) },
		func(_, want config) Cure { return lossless(want.AllowRollup, ByService) },
		func(to *config, want config) {
			to.AllowRollup, to.DenyPurge = want.AllowRollup, to.DenyPurge && !want.AllowRollup
		},
	},
	{
		"direct reads allowed:", func(c config) string { return strconv.FormatBool(c.AllowDirect) }, is(BySetup),
		func(to *config, want config) { to.AllowDirect = want.AllowDirect },
	},
	{
		"lifetimes of messages allowed:", func(c config) string { return strconv.FormatBool(c.AllowMsgTTL) }, is(BySetup),
		func(to *config, want config) {
			to.AllowMsgTTL, to.SubjectDeleteMarkerTTL = want.AllowMsgTTL, want.SubjectDeleteMarkerTTL
		},
	},
	{
		copyWindow, func(c config) string { return c.Duplicates.String() }, is(ByService),
		func(to *config, want config) { to.Duplicates = want.Duplicates },
	},
	{
		"replicas", func(c config) string { return strconv.Itoa(c.Replicas) }, copies,
		func(to *config, want config) { to.Replicas = want.Replicas },
	},
	{"mirror", mirrored, is(ByRemake), nil},
	{"sources", sources, is(ByChange), func(to *config, want config) { to.Sources = want.Sources }},
	{"copies to", republished, is(ByChange), func(to *config, want config) { to.RePublish = want.RePublish }},
	{"changed subjects", transformed, is(ByChange), func(to *config, want config) { to.SubjectTransform = want.SubjectTransform }},
}

// fitted is what is wanted of a stream that may have more than that: a bucket has keys of
// other models and versions, and what nobody has said stays.
func fitted(have, want config) config {
	want.Duplicates, want.MaxMsgSize = cmp.Or(want.Duplicates, have.Duplicates), cmp.Or(want.MaxMsgSize, have.MaxMsgSize)
	if want.MaxMsgs <= 0 {
		want.MaxMsgs = have.MaxMsgs
	}
	want.AllowDirect, want.AllowMsgTTL = want.AllowDirect || have.AllowDirect, want.AllowMsgTTL || have.AllowMsgTTL
	if bucket, ok := strings.CutPrefix(want.Name, bucketPrefix); ok {
		if slices.Contains(have.Subjects, KeySubject(bucket, ">")) && !slices.Equal(have.Subjects, want.Subjects) { // of a version that took any key
			want.Subjects, want.MaxMsgSize, want.AllowRollup = have.Subjects, have.MaxMsgSize, have.AllowRollup
			return want
		}
		if more := union(have.Subjects, want.Subjects); len(more) > len(want.Subjects) {
			want.Subjects, want.MaxMsgSize = more, valueBytes(len(more))
		}
	}
	return want
}

// sparing are the fields that only bound what outsiders can have a server hold. A service
// goes on without them where it may not change streams: the ids and the sizes of messages
// cost it nothing, and nothing of it depends on them.
var sparing = []string{"maximum messages", messageBytes, copyWindow}

// needed are the differences that a service cannot go on with.
func needed(left []Difference) []Difference {
	return slices.DeleteFunc(slices.Clone(left), func(d Difference) bool { return d.Cure == ByService && slices.Contains(sparing, d.Field) })
}

// union is what is there, and then what is new.
func union(have, more []string) []string {
	return append(slices.Clone(have), slices.DeleteFunc(slices.Clone(more), func(s string) bool { return slices.Contains(have, s) })...)
}

func is(cure Cure) func(_, _ config) Cure { return func(_, _ config) Cure { return cure } }

// copies is the cure of how many there are: those of tensors, which schema version 1 had of
// three servers, hold nothing that is not computed again.
func copies(_, want config) Cure { return lossless(want.Storage == jetstream.MemoryStorage, ByService) }

func lossless(is bool, cure Cure) Cure {
	if is {
		return cure
	}
	return ByChange
}

func bound(n int64) string { return strconv.FormatInt(cmp.Or(max(n, 0), -1), 10) }

// raised is the cure of a bound: a higher one loses nothing.
func raised(have, want int64) Cure {
	return lossless(want <= 0 || have > 0 && want > have, BySetup)
}

// gained reports whether a stream is only to take more subjects than it has, as of
// an older version: that loses nothing.
func gained(have, want []string) bool {
	return len(have) < len(want) && !slices.ContainsFunc(have, func(s string) bool { return !slices.Contains(want, s) })
}

// mirrored is the stream that a stream is a copy of, and sources are those that it copies as
// well: whoever writes there writes here.
func mirrored(c config) string {
	if c.Mirror == nil {
		return none
	}
	return c.Mirror.Name
}

func sources(c config) string {
	names := make([]string, len(c.Sources))
	for i, s := range c.Sources {
		names[i] = s.Name
	}
	return cmp.Or(strings.Join(names, ","), none)
}

func republished(c config) string {
	if c.RePublish == nil {
		return none
	}
	return c.RePublish.Destination
}

func transformed(c config) string {
	if c.SubjectTransform == nil {
		return none
	}
	return c.SubjectTransform.Source + " to " + c.SubjectTransform.Destination
}

const none = "none"
