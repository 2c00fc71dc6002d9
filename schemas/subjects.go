package schemas

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DefaultPrefix is the first token of every subject unless configured otherwise.
const DefaultPrefix = "switchyard"

// LogShards is the number of shards of the token log. One tokenizer replica at
// a time serves a shard, so it bounds how many can share the detokenising.
const LogShards = 8

// Subjects builds and parses the subjects of one model under one prefix.
type Subjects struct {
	Prefix string
	Model  string
}

// NewSubjects returns the subjects of a model; characters of the model's name
// that a subject token cannot carry become underscores.
func NewSubjects(prefix, model string) Subjects {
	return Subjects{Prefix: prefix, Model: ModelToken(model)}
}

func (s Subjects) join(parts ...string) string {
	n := len(s.Prefix)
	for _, p := range parts {
		n += 1 + len(p)
	}
	var b strings.Builder
	b.Grow(n) // the one allocation: most messages have a subject of their own
	b.WriteString(s.Prefix)
	for _, p := range parts {
		b.WriteByte('.')
		b.WriteString(p)
	}
	return b.String()
}

// Ask returns the request–reply service subject.
func (s Subjects) Ask() string { return s.AskOf(DefaultFlow()) }

// AskOf is that of a flow.
func (s Subjects) AskOf(f Flow) string { return s.flowSubject("ask", f) }

// Asks match the model's asks of all flows.
func (s Subjects) Asks() []string { return s.anyFlow("ask") }

// AnyAsk matches the requests of every model, served or not.
func (s Subjects) AnyAsk() []string { return Subjects{s.Prefix, "*"}.anyFlow("ask") }

// Prompt returns the subject whose acknowledgement is the acceptance.
func (s Subjects) Prompt() string { return s.PromptOf(DefaultFlow()) }

// PromptOf is that of a flow.
func (s Subjects) PromptOf(f Flow) string { return s.flowSubject("prompt", f) }

// Prompts match the model's prompts of all flows.
func (s Subjects) Prompts() []string { return s.anyFlow("prompt") }

// AnyPrompt matches the prompts of every model, served or not.
func (s Subjects) AnyPrompt() []string { return Subjects{s.Prefix, "*"}.anyFlow("prompt") }

// Replay returns the service subject that streams a request's chunks again.
func (s Subjects) Replay() string { return s.join("replay", s.Model) }

// ReplayOf is Replay for a tenant: to it the requests of others are unknown.
func (s Subjects) ReplayOf(tenant string) string { return s.join("replay", s.Model, tenant) }

// Replays match the replays of all who ask for them.
func (s Subjects) Replays() []string { return []string{s.Replay(), s.ReplayOf("*")} }

// Tokenize returns the service subject that turns prompts into ids and ids into text.
func (s Subjects) Tokenize() string { return s.join("tokenize", s.Model) }

// Rejected gets errors that have no usable reply subject.
func (s Subjects) Rejected() string { return s.join("rejected", s.Model) }

// Sequence carries tokenized requests to attention.
func (s Subjects) Sequence() string { return s.join("sequence", s.Model) }

// Dead begins the subjects of what was given up of a queue, named by its kind, such
// as "prompt"; the reason is the last token.
func (s Subjects) Dead(kind string) string { return s.join("dlq", s.Model, kind) }

// AnyDead matches what was given up of every queue.
func (s Subjects) AnyDead() string { return s.join("dlq", s.Model, "*", "*") }

// Cancel returns the subject where producers ask for the end of one request.
func (s Subjects) Cancel(request string) string { return s.join("cancel", s.Model, request) }

// AnyCancel matches the cancellation of every request.
func (s Subjects) AnyCancel() string { return s.join("cancel", s.Model, "*") }

// CancelOf is Cancel for a tenant: it ends no request of others.
func (s Subjects) CancelOf(tenant, request string) string {
	return s.join("cancel", s.Model, tenant, request)
}

// AnyCancels match the cancellation of every request, whoever asks for it.
func (s Subjects) AnyCancels() []string { return []string{s.AnyCancel(), s.CancelOf("*", "*")} }

// Forget returns the subject where a tenant asks for one of its requests to be ended and to be kept no longer.
func (s Subjects) Forget(tenant, request string) string {
	return s.join("forget", s.Model, tenant, request)
}

// AnyForget matches what every tenant asks to be forgotten.
func (s Subjects) AnyForget() string { return s.Forget("*", "*") }

// TenantOf returns the tenant that a subject of ReplayOf, CancelOf or Forget names; empty: it is one of
// Replay or Cancel, which name none.
func (s Subjects) TenantOf(subject string) string {
	verb, rest, _ := strings.Cut(strings.TrimPrefix(subject, s.Prefix+"."), ".")
	tokens := strings.Split(rest, ".")
	if len(tokens) == 1 || len(tokens) == 2 && verb == "cancel" {
		return ""
	}
	return tokens[1]
}

// Cancelled ends one request as its producer would. Only tokenizers publish it: what
// producers send, they alone hear.
func (s Subjects) Cancelled(request string) string { return s.join("cancelled", s.Model, request) }

// AnyCancelled matches the end of every request whose producer wants it no more.
func (s Subjects) AnyCancelled() string { return s.join("cancelled", s.Model, "*") }

// CancelledOf says that a tenant has cancelled a request that may be on its way. Only tokenizers
// publish it.
func (s Subjects) CancelledOf(tenant, request string) string {
	return s.join("cancelled", s.Model, tenant, request)
}

// AnyCancelledOf matches every request that a tenant has cancelled.
func (s Subjects) AnyCancelledOf() string { return s.CancelledOf("*", "*") }

// Token returns the token log of one request.
func (s Subjects) Token(request string) string {
	return s.join("token", s.Model, strconv.Itoa(ShardOf(request)), request)
}

// TokenShard matches all token logs of one shard.
func (s Subjects) TokenShard(shard int) string {
	return s.join("token", s.Model, strconv.Itoa(shard), "*")
}

// AnyToken matches all token logs.
func (s Subjects) AnyToken() string { return s.join("token", s.Model, "*", "*") }

// Step returns the subject where attention announces each step's rows before its first layer, on
// core NATS: whoever listens may miss some.
func (s Subjects) Step() string { return s.join("step", s.Model) }

// Rows carries copies of a layer's rows for predictors that see them all.
func (s Subjects) Rows(layer int) string { return s.join("rows", s.Model, strconv.Itoa(layer)) }

// RowsStep carries copies of what announces steps, before the copies of their rows.
func (s Subjects) RowsStep() string { return s.join("rows", s.Model, "step") }

// AnyRows matches all copies for predictors.
func (s Subjects) AnyRows() string { return s.join("rows", s.Model, "*") }

// Here returns what one replica listens to for as long as it has a connection. Nobody
// answers there: only that nobody listens says something.
func (s Subjects) Here(replica string) string { return s.join("here", s.Model, replica) }

// AnyHere matches what every replica listens to.
func (s Subjects) AnyHere() string { return s.join("here", s.Model, "*") }

// Holdings returns the subject where a replica tells its siblings, those of its service, what it has of
// their queue.
func (s Subjects) Holdings(service, replica string) string {
	return s.join("holdings", s.Model, service, replica)
}

// AnyHoldings matches what every replica of a service tells.
func (s Subjects) AnyHoldings(service string) string { return s.Holdings(service, "*") }

// Drain returns the subject where an operator asks a replica to drain.
func (s Subjects) Drain(service, replica string) string {
	return s.join("drain", s.Model, service, replica)
}

// Drained returns the subject where a replica that was asked to drain says how that goes.
func (s Subjects) Drained(service, replica string) string {
	return s.join("drained", s.Model, service, replica)
}

// Hidden carries rows to the gate of a layer.
func (s Subjects) Hidden(layer int) string { return s.join("hidden", s.Model, strconv.Itoa(layer)) }

// AnyHidden matches the rows of every layer.
func (s Subjects) AnyHidden() string { return s.join("hidden", s.Model, "*") }

// Gate carries rows to one gate replica, when not any one may have them.
func (s Subjects) Gate(replica string) string { return s.join("gate", s.Model, replica) }

// AnyGate matches the rows for every gate replica.
func (s Subjects) AnyGate() string { return s.join("gate", s.Model, "*") }

// Host carries routed rows to one expert host, when not any one of a
// function's hosts may have them.
func (s Subjects) Host(host string) string { return s.join("host", s.Model, host) }

// AnyHost matches the routed rows for every expert host.
func (s Subjects) AnyHost() string { return s.join("host", s.Model, "*") }

// Hint returns the subject where predictors tell one expert host which units it will need, on core NATS.
func (s Subjects) Hint(host string) string { return s.join("hint", s.Model, host) }

// AnyHint matches the hints for every expert host.
func (s Subjects) AnyHint() string { return s.join("hint", s.Model, "*") }

// Expert carries routed rows to one function.
func (s Subjects) Expert(layer int, function string) string {
	return s.join("expert", s.Model, strconv.Itoa(layer), function)
}

// AnyExpert matches the functions of one layer.
func (s Subjects) AnyExpert(layer int) string {
	return s.join("expert", s.Model, strconv.Itoa(layer), "*")
}

// Partial carries expert outputs to one aggregator.
func (s Subjects) Partial(aggregator string) string { return s.join("partial", s.Model, aggregator) }

// AnyPartial matches the partials for every aggregator.
func (s Subjects) AnyPartial() string { return s.join("partial", s.Model, "*") }

// Block carries a layer's summed expert output back to one attention replica.
func (s Subjects) Block(replica string) string { return s.join("block", s.Model, replica) }

// AnyBlock matches the blocks of every attention replica.
func (s Subjects) AnyBlock() string { return s.join("block", s.Model, "*") }

// Load carries what each expert has computed lately, from every expert host.
func (s Subjects) Load() string { return s.join("load", s.Model) }

// LoadAsk returns the subject where whoever wants to know what each expert has computed in all
// asks the hosts for it; they answer on Load.
func (s Subjects) LoadAsk() string { return s.join("load", s.Model, "ask") }

// Latencies carries what attention replicas measure of their steps, on core NATS.
func (s Subjects) Latencies() string { return s.join("latencies", s.Model) }

// Stop ends a request whose answer has one of its stop strings. Only tokenizers
// publish it: an answer that is cut looks complete then.
func (s Subjects) Stop(request string) string { return s.join("stop", s.Model, request) }

// AnyStop matches the stops of every request.
func (s Subjects) AnyStop() string { return s.join("stop", s.Model, "*") }

// SignalBody returns the body of a message between services whose subject says all:
// the subject again.
func SignalBody(subject string) []byte { return []byte(subject) }

// IsSignal reports whether a message was meant for its subject.
func IsSignal(subject string, body []byte) bool { return string(body) == subject }

// Probe returns the subject where the server says that nobody listens any more to a stream of
// chunks that one tokenizer replica sends.
func (s Subjects) Probe(replica, request string, stream uint64) string {
	return s.join("probe", s.Model, replica, request, strconv.FormatUint(stream, 10))
}

// AnyProbe matches the probes of one tokenizer replica.
func (s Subjects) AnyProbe(replica string) string { return s.join("probe", s.Model, replica, "*", "*") }

// ParseProbe returns what a Probe subject names.
func (s Subjects) ParseProbe(subject string) (request string, stream uint64, err error) {
	tokens := strings.Split(strings.TrimPrefix(subject, s.join("probe", s.Model)+"."), ".")
	if len(tokens) != 3 {
		return "", 0, fmt.Errorf("subject %q is not %s", subject, s.AnyProbe("*"))
	}
	if stream, err = strconv.ParseUint(tokens[2], 10, 64); err != nil {
		return "", 0, fmt.Errorf("subject %q is not %s: %w", subject, s.AnyProbe("*"), err)
	}
	return tokens[1], stream, CheckRequestID(tokens[1])
}

// Interest returns what tokenizers tell each other about who waits for a request.
func (s Subjects) Interest(kind, request string) string {
	return s.join("interest", s.Model, kind, request)
}

// AnyInterest matches what is told about every request.
func (s Subjects) AnyInterest(kind string) string { return s.join("interest", s.Model, kind, "*") }

// reserved begin the subjects of NATS itself: JetStream, key-value and object
// stores, system events, and replies that servers route and map.
var reserved = []string{"$", "_GR_", "_R_", "_nats"}

// Internal reports whether a subject belongs to the system, so that no producer
// may have it as its reply subject.
func (s Subjects) Internal(subject string) bool {
	return subject == s.Prefix || strings.HasPrefix(subject, s.Prefix+".") ||
		slices.ContainsFunc(reserved, func(prefix string) bool { return strings.HasPrefix(subject, prefix) })
}

// LastToken returns the last token of a subject: the request of a cancellation, the replica
// that tells what it has.
func LastToken(subject string) string {
	return subject[strings.LastIndexByte(subject, '.')+1:]
}

// ShardOf returns the shard of the token log that a request's records go to.
func ShardOf(request string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(request)) // never fails
	return int(h.Sum32() % LogShards)
}

// ModelToken returns a model's name as a subject token: characters outside
// [A-Za-z0-9_-] become underscores.
func ModelToken(name string) string {
	return strings.Map(func(r rune) rune {
		if isTokenRune(r) {
			return r
		}
		return '_'
	}, name)
}

// MaxModelToken bounds the name of a model, in bytes: it is part of subjects and of members' records.
const MaxModelToken = 64

// MaxPrefix bounds the first token of every subject: a server closes the connection of whoever publishes to a long one.
const MaxPrefix = 256

// CheckModelToken refuses a name that no model can have.
func CheckModelToken(name string) error {
	if name == "" || len(name) > MaxModelToken || ModelToken(name) != name {
		return fmt.Errorf("%.100q of %d bytes is no name of a model in subjects: those have 1 to %d letters, digits, '_' and '-'", name, len(name), MaxModelToken)
	}
	return nil
}

// MaxReplicaID bounds the length of a replica's id, in bytes.
const MaxReplicaID = 64

// IsReplicaID reports whether an id can be a replica's: it is part of subjects and keys.
func IsReplicaID(id string) bool {
	return id != "" && len(id) <= MaxReplicaID && ModelToken(id) == id
}

// MaxRequestID bounds the length of a request id, in bytes.
const MaxRequestID = 128

// CheckRequestID says why an id cannot be one: it is part of subjects.
func CheckRequestID(id string) error {
	if id == "" || len(id) > MaxRequestID {
		return fmt.Errorf("request_id has %d bytes; it must have 1 to %d", len(id), MaxRequestID)
	}
	for _, r := range id {
		if !isTokenRune(r) {
			return fmt.Errorf("request_id %q has %q; only letters, digits, '_' and '-' may be used", id, r)
		}
	}
	return nil
}

func isTokenRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// MaxReplyTo bounds the length of a reply subject, in bytes: a server closes
// the connection of whoever publishes with a subject of its line limit, which
// is 4096 bytes unless configured otherwise.
const MaxReplyTo = 1024

// CheckReplyTo says why the subject that a prompt names cannot receive chunks.
func (s Subjects) CheckReplyTo(subject string) error {
	if err := checkSubject("reply_to", subject); err != nil {
		return err
	}
	if s.Internal(subject) {
		return fmt.Errorf("reply_to %q is an internal subject; use one outside %s.> and $", subject, s.Prefix)
	}
	return nil
}

// DefaultInboxPrefix begins the inboxes that NATS's clients make.
const DefaultInboxPrefix = "_INBOX."

// CheckInbox says why a message's reply subject is no inbox. Whoever may
// publish a request may give it any reply subject, also ones that he may not
// publish to himself; so a service answers to inboxes only.
func (s Subjects) CheckInbox(subject string, prefixes []string) error {
	if err := checkSubject("the reply subject", subject); err != nil {
		return err
	}
	within := func(prefix string) bool { return strings.HasPrefix(subject, prefix) }
	if !slices.ContainsFunc(prefixes, within) {
		return fmt.Errorf("the reply subject %q is no inbox; those begin with %s", subject, strings.Join(prefixes, " or "))
	}
	return nil
}

// InboxOwner returns the part of an inbox that the permissions of a user give to him, or, of an
// inbox that anybody can make, the part by which clients tell theirs from others'.
func InboxOwner(inbox string) string {
	first, rest, _ := strings.Cut(inbox, ".")
	second, _, _ := strings.Cut(rest, ".")
	return first + "." + second
}

// producerInboxes begin the inboxes that the permissions of tenants' producers give to them;
// the default tenant's have no more.
const producerInboxes = DefaultInboxPrefix + "producer"

// CheckInboxOf says why a tenant's answers cannot go to a subject: it is an inbox of another
// tenant's producers.
func CheckInboxOf(tenant, subject string) error {
	name, is := strings.CutPrefix(InboxOwner(subject), producerInboxes)
	if !is || name != "" && name[0] != '-' {
		return nil // whose it is, its name does not tell
	}
	if owner := cmp.Or(strings.TrimPrefix(name, "-"), DefaultTenant); owner != tenant {
		return fmt.Errorf("the reply subject %q is an inbox of tenant %s, and the request is of tenant %s", subject, owner, tenant)
	}
	return nil
}

// CheckInboxPrefix says why subjects that begin so cannot be inboxes.
func (s Subjects) CheckInboxPrefix(prefix string) error {
	if err := checkSubject("the inbox prefix", strings.TrimSuffix(prefix, ".")); err != nil {
		return err
	}
	// A reply that the server mapped ("_R_.") can be one: clients cannot give such.
	if s.Internal(prefix) && !strings.HasPrefix(prefix, "_R_.") || strings.HasPrefix(s.Prefix+".", prefix) {
		return fmt.Errorf("the inbox prefix %q takes internal subjects in; use one outside %s.> and $", prefix, s.Prefix)
	}
	return nil
}

func checkSubject(what, subject string) error {
	switch {
	case subject == "":
		return fmt.Errorf("%s is empty", what)
	case len(subject) > MaxReplyTo:
		return fmt.Errorf("%s has %d bytes; at most %d are allowed", what, len(subject), MaxReplyTo)
	case strings.ContainsAny(subject, "*>"):
		return fmt.Errorf("%s %q has a wildcard; it must be one subject", what, subject)
	case strings.ContainsFunc(subject, notPrintable) || strings.Contains("."+subject+".", ".."):
		return fmt.Errorf("%s %q is not a subject: it has white space, unprintable characters or an empty token", what, subject)
	}
	return nil
}

// notPrintable is true of white space, control characters and what is not UTF-8.
func notPrintable(r rune) bool {
	return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == utf8.RuneError
}
