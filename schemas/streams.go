package schemas

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
)

// Hops is how tensors travel between services.
type Hops string

// The three ways a tensor hop can work. What must survive is in file streams
// whatever this says.
const (
	// HopsAcked: memory work queues, every message acknowledged after it is handled.
	HopsAcked Hops = "acked"
	// HopsUnacked: memory streams with interest retention and no acknowledgements where
	// several share messages; plain NATS to one receiver by name.
	HopsUnacked Hops = "unacked"
	// HopsCore: plain NATS with queue groups, nothing stored.
	HopsCore Hops = "core"
)

// Retention of a stream, in NATS's words.
type Retention uint8

// The retentions that streams here use.
const (
	Limits Retention = iota
	WorkQueue
	Interest
)

// StreamSpec is a stream as data; pkg/transport/bus turns it into a server's configuration.
type StreamSpec struct {
	Name string
	// Kind names a durable stream in metrics, whatever the model.
	Kind      string
	Subjects  []string
	Retention Retention
	// Memory streams hold tensors, which can be computed again; file streams what cannot.
	Memory bool
	MaxAge time.Duration
	// MaxBytes bounds the stream; a full one refuses publishing, or drops the oldest
	// (memory, and file with DropOldest).
	MaxBytes int64
	// MaxPerSubject bounds the messages of each subject; 0: no bound.
	MaxPerSubject int64
	// MaxMessages bounds the messages of all subjects; 0: no bound.
	MaxMessages int64
	// MaxMessage bounds the bytes of a message, headers included; 0: as many as the server takes.
	MaxMessage int32
	// Copies is how long the server knows a copy of a message by its Nats-Msg-Id; 0: as
	// long as it does by itself.
	Copies time.Duration
	// DropOldest is for what may be lost rather than keep anybody waiting.
	DropOldest bool
	// Refuses is of a memory stream that refuses what has no room, as file streams do; Direct lets
	// each server that has the stream answer who reads single messages.
	Refuses, Direct bool
	// Rollup lets one message take the place of all others of its subject.
	Rollup bool
}

// Ages and sizes of the streams.
const (
	// RepeatWindow is how long after its acceptance a request can be asked for again.
	RepeatWindow = time.Hour
	// MaxDeadline is the longest that a request may take.
	MaxDeadline = time.Hour
	// DefaultLogAge keeps a record through both, and no longer: age is what removes
	// an answer that was delivered.
	DefaultLogAge = RepeatWindow + MaxDeadline
	// TensorAge bounds how long a lost consumer's tensors stay; attention issues them again well before.
	TensorAge = 30 * time.Second

	// DefaultLogBytes bounds a model's token logs: about 140 bytes a token while
	// a request runs, and about 6 once it has ended.
	DefaultLogBytes = 4 << 30

	// DeadAge is how long dead letters are kept.
	DeadAge = 7 * 24 * time.Hour
	// MaxDead bounds the dead letters of one queue and reason, so that those of
	// one reason do not push out those of another.
	MaxDead = 256

	// PromptCopies is how long the server remembers the ids of prompts: as short as it can.
	// Producers choose them, of any length, and it keeps them all in memory. A copy that
	// comes later is found out by its request's log.
	PromptCopies = 100 * time.Millisecond

	// MaxPrompts bounds the prompts that no tokenizer has taken in yet: they are taken in the
	// order in which they came, and whoever sends too many makes all others wait for it.
	MaxPrompts = 4096

	deadBytes   = 64 << 20
	promptBytes = 256 << 20
	tensorBytes = 64 << 20
	objectBytes = 256 << 20
)

// Streams are the names and definitions of a model's streams.
type Streams struct {
	// Subjects are what the streams hold.
	Subjects Subjects
	Hops     Hops
	// LogAge is how long token logs are kept; 0 is DefaultLogAge.
	LogAge time.Duration
	// LogBytes bounds them; 0 is DefaultLogBytes.
	LogBytes int64
	// PromptBytes bounds the body of a prompt, as MaxPrompt does for the model; 0: as many
	// as the server takes.
	PromptBytes int64
	// AllRows keeps copies of all rows for predictors.
	AllRows bool
	// Moved has services move rows through objects, where plans say so.
	Moved bool
}

const (
	// promptRoom is for what of a prompt does not grow with the context.
	promptRoom = 64 << 10
	// tokenRoom is for each token of the context: text of which each byte is escaped, as
	// "\u0020", tokens of 64 bytes, or ids in three lists with ten digits each.
	tokenRoom = 6 * 64
	// headerRoom is the most that a stream takes of headers.
	headerRoom = 64 << 10
)

// MaxPrompt returns the most bytes that the body of a prompt may have for a model with so many
// positions. It is more than any text takes that fits them, so whoever meets more need not
// read it.
func MaxPrompt(positions int) int64 { return promptRoom + tokenRoom*int64(positions) }

// largestPrompt returns the bound of a message in Prompts.
func (s Streams) largestPrompt() int32 {
	if n := s.PromptBytes + headerRoom; s.PromptBytes > 0 && n <= math.MaxInt32 {
		return int32(n)
	}
	return 0
}

func (s Streams) name(kind string) string {
	return s.Subjects.Prefix + "_" + kind + "_" + s.Subjects.Model
}

// Prompts holds accepted prompts until a tokenizer has made them sequences.
func (s Streams) Prompts() StreamSpec {
	return StreamSpec{Name: s.name("PROMPTS"), Kind: "prompt", Subjects: s.Subjects.Prompts(), Retention: WorkQueue, MaxBytes: promptBytes, MaxMessages: MaxPrompts, MaxMessage: s.largestPrompt(), Copies: PromptCopies}
}

// Sequences holds requests until their last token is in the log.
func (s Streams) Sequences() StreamSpec {
	return StreamSpec{Name: s.name("SEQUENCES"), Kind: "sequence", Subjects: []string{s.Subjects.Sequence()}, Retention: WorkQueue, MaxBytes: promptBytes}
}

// Tokens returns the token log.
func (s Streams) Tokens() StreamSpec {
	return StreamSpec{
		Name: s.name("TOKENS"), Kind: "token", Subjects: []string{s.Subjects.AnyToken()}, Retention: Limits, Rollup: true,
		MaxAge: cmp.Or(s.LogAge, DefaultLogAge), MaxBytes: cmp.Or(s.LogBytes, DefaultLogBytes),
	}
}

// Dead holds what of prompts and sequences was given up, until somebody looks at
// it. It never refuses anything: who gives a message up has others to handle.
func (s Streams) Dead() StreamSpec {
	return StreamSpec{
		Name: s.name("DLQ"), Kind: "dlq", Subjects: []string{s.Subjects.AnyDead()}, Retention: Limits, DropOldest: true,
		MaxAge: DeadAge, MaxBytes: deadBytes, MaxPerSubject: MaxDead,
	}
}

// Hidden carries rows to the gates.
func (s Streams) Hidden() StreamSpec { return s.tensor("HIDDEN", s.Subjects.AnyHidden()) }

// Gate carries rows to gates by name.
func (s Streams) Gate() StreamSpec { return s.tensor("GATE", s.Subjects.AnyGate()) }

// Host carries routed rows to expert hosts by name.
func (s Streams) Host() StreamSpec { return s.tensor("HOST", s.Subjects.AnyHost()) }

// Expert carries one layer's routed rows: a server takes about a thousand
// consumers a stream, so each layer has its own.
func (s Streams) Expert(layer int) StreamSpec {
	return s.tensor("EXPERT-"+strconv.Itoa(layer), s.Subjects.AnyExpert(layer))
}

// Partial carries expert outputs to the aggregators.
func (s Streams) Partial() StreamSpec { return s.tensor("PARTIAL", s.Subjects.AnyPartial()) }

// Block carries summed outputs to the attention replicas.
func (s Streams) Block() StreamSpec { return s.tensor("BLOCK", s.Subjects.AnyBlock()) }

// Rows keeps copies of all rows for predictors, for a while: nobody waits until they are read,
// and the oldest give way.
func (s Streams) Rows() StreamSpec {
	return StreamSpec{
		Name: s.name("ROWS"), Subjects: []string{s.Subjects.AnyRows()}, Retention: Limits,
		Memory: true, MaxAge: TensorAge, MaxBytes: tensorBytes, DropOldest: true,
	}
}

// Objects returns the object store of rows on their way: the newest of a name stays, what has no room is
// refused, and age removes what nobody has.
func (s Streams) Objects() StreamSpec {
	return StreamSpec{
		Name: "OBJ_" + s.name(objectsKind), Subjects: []string{s.objects("C"), s.objects("M")}, Retention: Limits,
		Memory: true, MaxAge: TensorAge, MaxBytes: objectBytes, MaxPerSubject: 1, Refuses: true, Direct: true,
	}
}

// objectsKind names the bucket of rows on their way.
const objectsKind = "TRANSFER"

func (s Streams) objects(kind string) string { return "$O." + s.name(objectsKind) + "." + kind + ".>" }

// ObjectPrefix begins the subjects of objects' chunks.
func (s Streams) ObjectPrefix() string { return strings.TrimSuffix(s.objects("C"), ">") }

func (s Streams) tensor(kind, subject string) StreamSpec {
	retention := Interest
	if s.Hops == HopsAcked {
		retention = WorkQueue
	}
	return StreamSpec{
		Name: s.name(kind), Subjects: []string{subject}, Retention: retention,
		Memory: true, MaxAge: TensorAge, MaxBytes: tensorBytes,
	}
}

// Durable lists the file streams, which exist whatever the hops are.
func (s Streams) Durable() []StreamSpec {
	return []StreamSpec{s.Prompts(), s.Sequences(), s.Tokens(), s.Dead()}
}

// Tensors lists the memory streams of a model with these MoE layers: those that its hops take,
// that of copies for predictors, and that of objects. Where Hops is not set these are all, which rights are made for.
func (s Streams) Tensors(moeLayers []int) (specs []StreamSpec) {
	switch s.Hops {
	case HopsCore:
	case HopsUnacked:
		specs = s.shared(moeLayers)
	default:
		specs = append(s.shared(moeLayers), s.named()...)
	}
	if s.Moved {
		specs = append(specs, s.Objects())
	}
	if s.AllRows {
		specs = append(specs, s.Rows())
	}
	return specs
}

// shared returns the streams of which several receivers share the messages.
func (s Streams) shared(moeLayers []int) []StreamSpec {
	specs := []StreamSpec{s.Hidden()}
	for _, layer := range moeLayers {
		specs = append(specs, s.Expert(layer))
	}
	return specs
}

// named returns the streams of which each message has one receiver by name.
func (s Streams) named() []StreamSpec {
	return []StreamSpec{s.Gate(), s.Host(), s.Partial(), s.Block()}
}

// Unused names the streams of tensors that other hops take, or took in releases before, and
// these do not.
func (s Streams) Unused(moeLayers []int) (names []string) {
	used := map[string]bool{}
	for _, spec := range s.Tensors(moeLayers) {
		used[spec.Name] = true
	}
	for _, spec := range append(s.shared(moeLayers), s.named()...) {
		if !used[spec.Name] {
			names = append(names, spec.Name)
		}
	}
	return names
}

// Bucket names a key-value bucket of the model: "plans", "functions", "members",
// "leases", "brownout" or "trials".
func (s Streams) Bucket(kind string) string { return s.name(kind) }

// BucketStream names the stream in which NATS keeps a bucket.
func BucketStream(bucket string) string { return "KV_" + bucket }
