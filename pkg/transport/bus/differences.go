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
	// ByHand may lose what the stream holds, or nobody knows why the stream is so.
	ByHand
)

// Difference is a field in which a stream is not what is wanted.
type Difference struct {
	Stream, Field, Have, Want string
	Cure                      Cure
	// Command mends it, as a line for a shell.
	Command string
}

// String has both values.
func (d Difference) String() string {
	return fmt.Sprintf("%s %s where %s is wanted", d.Field, d.Have, d.Want)
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
		d := Difference{Stream: want.Name, Field: f.name, Have: was, Want: is, Cure: f.cure(have, want), Command: command(want.Name, f.flag, want)}
		if d.Cure > upTo {
			left = append(left, d)
			continue
		}
		mended = append(mended, d)
		f.set(&to, want)
	}
	return to, mended, left
}

// Differences are all fields in which a stream is not what is wanted.
func Differences(have, want jetstream.StreamConfig) []Difference {
	_, mended, left := Mend(have, want, ByService)
	return append(mended, left...)
}

// command changes a field with NATS's own tool, or removes a stream that cannot be changed.
func command(stream string, flag func(jetstream.StreamConfig) string, want jetstream.StreamConfig) string {
	if flag == nil {
		return "nats stream rm --force " + stream
	}
	return "nats stream edit --force " + stream + " " + flag(want)
}

// field is one of a stream's settings.
type field struct {
	name string
	show func(jetstream.StreamConfig) string
	cure func(have, want jetstream.StreamConfig) Cure
	// flag is the tool's; nil: nothing but removing the stream helps.
	flag func(want jetstream.StreamConfig) string
	set  func(to *jetstream.StreamConfig, want jetstream.StreamConfig)
}

// fields are those that matter.
var fields = []field{
	{
		"subjects", func(c jetstream.StreamConfig) string { return fmt.Sprint(slices.Sorted(slices.Values(c.Subjects))) },
		func(have, want jetstream.StreamConfig) Cure {
			return lossless(gained(have.Subjects, want.Subjects), ByService)
		},
		func(want jetstream.StreamConfig) string {
			return "--subjects='" + strings.Join(want.Subjects, ",") + "'"
		},
		func(to *jetstream.StreamConfig, want jetstream.StreamConfig) { to.Subjects = want.Subjects },
	},
	{"retention", func(c jetstream.StreamConfig) string { return c.Retention.String() }, byHand, nil, nil},
	{"storage", func(c jetstream.StreamConfig) string { return c.Storage.String() }, byHand, nil, nil},
	{
		"discard policy", func(c jetstream.StreamConfig) string { return c.Discard.String() }, bySetup,
		func(want jetstream.StreamConfig) string {
			return "--discard=" + map[jetstream.DiscardPolicy]string{jetstream.DiscardNew: "new", jetstream.DiscardOld: "old"}[want.Discard]
		},
		func(to *jetstream.StreamConfig, want jetstream.StreamConfig) { to.Discard = want.Discard },
	},
	{
		"maximum age", func(c jetstream.StreamConfig) string { return c.MaxAge.String() },
		func(have, want jetstream.StreamConfig) Cure { return raised(int64(have.MaxAge), int64(want.MaxAge)) },
		func(want jetstream.StreamConfig) string { return "--max-age=" + want.MaxAge.String() },
		func(to *jetstream.StreamConfig, want jetstream.StreamConfig) { to.MaxAge = want.MaxAge },
	},
	{
		"maximum bytes", func(c jetstream.StreamConfig) string { return strconv.FormatInt(bound(c.MaxBytes), 10) },
		func(have, want jetstream.StreamConfig) Cure { return raised(have.MaxBytes, want.MaxBytes) },
		func(want jetstream.StreamConfig) string {
			return "--max-bytes=" + strconv.FormatInt(bound(want.MaxBytes), 10)
		},
		func(to *jetstream.StreamConfig, want jetstream.StreamConfig) { to.MaxBytes = want.MaxBytes },
	},
	{
		"maximum messages of a subject", func(c jetstream.StreamConfig) string { return strconv.FormatInt(bound(c.MaxMsgsPerSubject), 10) },
		func(have, want jetstream.StreamConfig) Cure {
			return raised(have.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
		},
		func(want jetstream.StreamConfig) string {
			return "--max-msgs-per-subject=" + strconv.FormatInt(bound(want.MaxMsgsPerSubject), 10)
		},
		func(to *jetstream.StreamConfig, want jetstream.StreamConfig) {
			to.MaxMsgsPerSubject = want.MaxMsgsPerSubject
		},
	},
	{
		"maximum bytes of a message", func(c jetstream.StreamConfig) string { return strconv.FormatInt(bound(int64(c.MaxMsgSize)), 10) }, byService,
		func(want jetstream.StreamConfig) string {
			return "--max-msg-size=" + strconv.FormatInt(bound(int64(want.MaxMsgSize)), 10)
		},
		func(to *jetstream.StreamConfig, want jetstream.StreamConfig) { to.MaxMsgSize = want.MaxMsgSize },
	},
	{
		"rollups allowed:", func(c jetstream.StreamConfig) string { return strconv.FormatBool(c.AllowRollup) },
		func(_, want jetstream.StreamConfig) Cure { return lossless(want.AllowRollup, ByService) },
		func(want jetstream.StreamConfig) string { return switched("allow-rollup", want.AllowRollup) },
		func(to *jetstream.StreamConfig, want jetstream.StreamConfig) {
			to.AllowRollup, to.DenyPurge = want.AllowRollup, to.DenyPurge && !want.AllowRollup
		},
	},
	{
		"direct reads allowed:", func(c jetstream.StreamConfig) string { return strconv.FormatBool(c.AllowDirect) }, bySetup,
		func(want jetstream.StreamConfig) string { return switched("allow-direct", want.AllowDirect) },
		func(to *jetstream.StreamConfig, want jetstream.StreamConfig) { to.AllowDirect = want.AllowDirect },
	},
	{
		"lifetimes of messages allowed:", func(c jetstream.StreamConfig) string { return strconv.FormatBool(c.AllowMsgTTL) }, bySetup,
		func(want jetstream.StreamConfig) string {
			return "--allow-msg-ttl --subject-del-markers-ttl=" + want.SubjectDeleteMarkerTTL.String()
		},
		func(to *jetstream.StreamConfig, want jetstream.StreamConfig) {
			to.AllowMsgTTL, to.SubjectDeleteMarkerTTL = want.AllowMsgTTL, want.SubjectDeleteMarkerTTL
		},
	},
	{
		"window of copies", func(c jetstream.StreamConfig) string { return c.Duplicates.String() }, byService,
		func(want jetstream.StreamConfig) string { return "--dupe-window=" + want.Duplicates.String() },
		func(to *jetstream.StreamConfig, want jetstream.StreamConfig) { to.Duplicates = want.Duplicates },
	},
	{
		"replicas", func(c jetstream.StreamConfig) string { return strconv.Itoa(c.Replicas) }, byHand,
		func(want jetstream.StreamConfig) string { return "--replicas=" + strconv.Itoa(want.Replicas) }, nil,
	},
	{"sources", sources, byHand, nil, nil},
	{"copies to", republished, byHand, func(jetstream.StreamConfig) string { return "--no-republish" }, nil},
}

// fitted is what is wanted of a stream that may have more than that: a bucket has keys of
// other models and versions, and what nobody has said stays.
func fitted(have, want jetstream.StreamConfig) jetstream.StreamConfig {
	want.Duplicates, want.MaxMsgSize = cmp.Or(want.Duplicates, have.Duplicates), cmp.Or(want.MaxMsgSize, have.MaxMsgSize)
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

// union is what is there, and then what is new.
func union(have, more []string) []string {
	return append(slices.Clone(have), slices.DeleteFunc(slices.Clone(more), func(s string) bool { return slices.Contains(have, s) })...)
}

func byHand(_, _ jetstream.StreamConfig) Cure    { return ByHand }
func bySetup(_, _ jetstream.StreamConfig) Cure   { return BySetup }
func byService(_, _ jetstream.StreamConfig) Cure { return ByService }

func lossless(is bool, cure Cure) Cure {
	if is {
		return cure
	}
	return ByHand
}

// bound is -1 where there is none.
func bound(n int64) int64 { return cmp.Or(max(n, 0), -1) }

// raised is the cure of a bound: a higher one loses nothing.
func raised(have, want int64) Cure {
	return lossless(bound(want) < 0 || bound(have) > 0 && want > have, BySetup)
}

func switched(flag string, on bool) string {
	if on {
		return "--" + flag
	}
	return "--no-" + flag
}

// gained says whether a stream is only to take more subjects than it has, as of
// an older version: that loses nothing.
func gained(have, want []string) bool {
	return len(have) < len(want) && !slices.ContainsFunc(have, func(s string) bool { return !slices.Contains(want, s) })
}

// sources are the streams that a stream copies: whoever writes there writes here.
func sources(c jetstream.StreamConfig) string {
	var names []string
	if c.Mirror != nil {
		names = append(names, c.Mirror.Name)
	}
	for _, s := range c.Sources {
		names = append(names, s.Name)
	}
	return orNone(strings.Join(names, ","))
}

// republished is where a stream sends all that it stores.
func republished(c jetstream.StreamConfig) string {
	if c.RePublish == nil {
		return orNone("")
	}
	return orNone(c.RePublish.Destination)
}

func orNone(text string) string { return cmp.Or(text, "none") }
