package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	policy "github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What tokenizers tell each other about a request's readers.
const (
	// interestAsked: does any replica stream this request to a caller that waits?
	interestAsked = "asked"
	// interestHeld: yes.
	interestHeld = "held"
	// interestTaken: the sender streams this request to this reader from now on.
	interestTaken = "taken"
	// interestHanded: the sender stops; one of the others streams this request to this
	// reader from here on.
	interestHanded = "handed"
)

// heldWithin is how long the others have to say that a caller waits.
const heldWithin = 250 * time.Millisecond

// noResponders reports whether a message is the server's word that no client listens. One that
// JetStream sends, with the headers that a client has stored, has further ones.
func noResponders(m *nats.Msg) bool {
	further := maps.Clone(m.Header)
	delete(further, "Status")
	delete(further, "Nats-Subject")
	return m.Header.Get("Status") == "503" && len(further) == 0 && len(m.Data) == 0 && m.Reply == ""
}

// OnProbe hears from the server that no client listens to a stream's subject any more.
func (s *Replays) OnProbe(m *nats.Msg) {
	request, stream, err := s.d.Subjects.ParseProbe(m.Subject)
	switch {
	case err != nil || !noResponders(m):
		s.metrics.Refused.Inc()
	case stream == 0:
		s.whenDeserted(request)
	default:
		s.open.stop(stream)
	}
}

// whenDeserted cancels a request whose caller has been gone for a while, unless another caller
// has asked for it, too, and waits. Every further token comes here again, so
// that it is cancelled when the last one goes.
func (s *Replays) whenDeserted(request string) {
	now := time.Now()
	if now.Sub(s.d.Edge.Regained()) < resettling || !s.absent.lasts(request, now) {
		return
	}
	noted := s.deserted.note(request, s.heldWithin, func(context.Context) { s.endings.Cancel(request) })
	if noted {
		s.signal(s.d.Subjects.Interest(interestAsked, request))
	}
}

func (s *Replays) onInterestAsked(m *nats.Msg) {
	if request := schemas.LastToken(m.Subject); s.isSignal(m) && s.open.asked(request) {
		s.signal(s.d.Subjects.Interest(interestHeld, request))
	}
}

func (s *Replays) onInterestHeld(m *nats.Msg) {
	if s.isSignal(m) {
		s.deserted.forget(schemas.LastToken(m.Subject))
	}
}

// takeOver has other replicas end their streams of a request to the same reader.
func (s *Replays) takeOver(st *replay) {
	body := takenBody(st.turn, s.replica, st.to.Subject)
	if err := s.d.Conn.Tell(s.d.Subjects.Interest(interestTaken, st.request), []byte(body)); err != nil {
		s.d.Logger.Debug("taking a reader over", "request", st.request, "error", err)
	}
}

// onInterestTaken leaves a reader to another replica. One that took over a stream of an
// earlier turn than the one here, as one that was handed on, has to hear of this one.
func (s *Replays) onInterestTaken(m *nats.Msg) {
	later, err := s.takenOver(m)
	switch {
	case err != nil:
		s.metrics.Refused.Inc()
		s.d.Logger.Debug("not leaving a reader to another replica", "error", err)
	case later != nil:
		s.takeOver(later)
	}
}

func (s *Replays) takenOver(m *nats.Msg) (later *replay, err error) {
	turn, by, reader, err := parseTaken(m.Data)
	if err != nil || by == s.replica || s.kinds.foreigner(by) {
		return nil, err
	}
	return s.open.takenOver(by, schemas.LastToken(m.Subject), reader, turn), nil
}

// takenBody is what takeOver sends.
func takenBody(turn int64, by, reader string) string {
	return strings.Join([]string{strconv.FormatInt(turn, 10), by, reader}, " ")
}

// parseTaken reads what takeOver sends, and nothing else. Both could take over at once:
// the later turn stays.
func parseTaken(body []byte) (turn int64, by, reader string, err error) {
	parts := strings.SplitN(string(body), " ", 3)
	if len(parts) == 3 {
		turn, err = strconv.ParseInt(parts[0], 10, 64)
		by, reader = parts[1], parts[2]
	}
	if err != nil || !schemas.IsReplicaID(by) || strings.Contains(reader, " ") || takenBody(turn, by, reader) != string(body) {
		return 0, "", "", fmt.Errorf("%.80q does not say who serves which reader at which turn", body)
	}
	return turn, by, reader, nil
}

// recently remembers names for a while, and a bounded number of them: two
// generations, of which the older one goes when the younger one is old or full.
type recently struct {
	limit int
	age   time.Duration

	mu         sync.Mutex
	young, old map[string]struct{}
	since      time.Time // when the young generation began
}

func newRecently(limit int, age time.Duration) *recently {
	return &recently{limit: limit, age: age}
}

// add remembers a name for at least age, if no more than half of limit come meanwhile.
func (r *recently) add(name string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	if len(r.young) >= r.limit/2 {
		r.old, r.young, r.since = r.young, nil, now
	}
	if r.young == nil {
		r.young = map[string]struct{}{}
	}
	r.young[name] = struct{}{}
}

func (r *recently) has(name string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	_, young := r.young[name]
	_, old := r.old[name]
	return young || old
}

// names are those that are remembered.
func (r *recently) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(r.young)), maps.Keys(r.old))
}

// turn makes the generations older.
func (r *recently) turn(now time.Time) {
	switch passed := now.Sub(r.since); {
	case passed > 2*r.age:
		r.old, r.young, r.since = nil, nil, now
	case passed > r.age:
		r.old, r.young, r.since = r.young, nil, now
	}
}

// handed is a stream that a replica which stops leaves to the others, as far as it was sent.
type handed struct {
	Subject  string      `json:"subject"`
	Named    bool        `json:"named,omitempty"` // by a prompt: it need not be an inbox
	Encoding pb.Encoding `json:"encoding"`
	From     int32       `json:"from"`
	Until    uint64      `json:"until,omitempty"`
	Asked    bool        `json:"asked,omitempty"`
	Turn     int64       `json:"turn"`
	Reader   string      `json:"reader,omitempty"` // the reader's tenant
}

func (st *replay) handed() handed {
	return handed{
		Subject: st.to.Subject, Named: st.to.Origin == Named, Encoding: st.to.Encoding,
		From: st.to.From, Until: st.until, Asked: st.asked, Turn: st.turn + 1, Reader: st.reader,
	}
}

// maxHanded bounds what is decoded of one: a subject, each of whose characters may be
// escaped, and some numbers.
const maxHanded = 6*schemas.MaxReplyTo + 1024

// handOn leaves a stream that has ended here to another replica. Nothing comes back, and
// nothing goes in a circle: a replica that stops has no subscription any more when it sends this,
// once for each stream. If no replica hears it, the reader asks again.
func (s *Replays) handOn(st *replay) {
	body, err := json.Marshal(st.handed())
	if err == nil {
		err = s.d.Conn.Tell(s.d.Subjects.Interest(interestHanded, st.request), body)
	}
	if err != nil {
		s.d.Logger.Debug("handing a replay on", "request", st.request, "error", err)
	}
}

// onInterestHanded goes on with a stream of a replica that stops, if a replay to its
// reader would be begun, unless it is served here since a later turn.
func (s *Replays) onInterestHanded(m *nats.Msg) {
	st, err := parseHanded(schemas.LastToken(m.Subject), m.Data)
	if err != nil {
		s.metrics.Refused.Inc()
		s.d.Logger.Debug("refusing a replay that was handed on", "error", err)
		return
	}
	if !s.sender.Answerable(st.to) {
		return
	}
	s.lookUp(st)
}

// parseHanded reads what handOn sends, and nothing else.
func parseHanded(request string, body []byte) (*replay, error) {
	h := handed{}
	if len(body) > maxHanded {
		return nil, fmt.Errorf("%d bytes; at most %d are read", len(body), maxHanded)
	}
	if err := json.Unmarshal(body, &h); err != nil {
		return nil, fmt.Errorf("reading what was handed on: %w", err)
	}
	if again, err := json.Marshal(h); err != nil || !bytes.Equal(again, body) {
		return nil, fmt.Errorf("%.80q is not what a replica writes that hands a replay on", body)
	}
	if err := schemas.CheckRequestID(request); err != nil {
		return nil, err
	}
	if h.Turn <= 0 || h.Turn > maxTurn || pb.Encoding_name[int32(h.Encoding)] == "" {
		return nil, fmt.Errorf("request %s: turn %d, encoding %d", request, h.Turn, h.Encoding)
	}
	to := Destination{Subject: h.Subject, Origin: Inbox, Encoding: h.Encoding, From: h.From}
	if h.Named {
		to.Origin = Named
	}
	return &replay{request: request, to: to, until: h.Until, asked: h.Asked, turn: h.Turn, reader: h.Reader}, nil
}

const (
	// cancelGrace is how long an attention replica has to end a request itself.
	cancelGrace = 200 * time.Millisecond
	// maxEnding bounds the requests that wait for their end, and endingAtOnce
	// those that are being ended: each takes requests to the server.
	maxEnding, endingAtOnce = 10_000, 8
	// A cancellation that comes before its request is remembered: this many,
	// for this long.
	maxCancelled, cancelledFor = 20_000, 5 * time.Minute
	// maxDeadlines bounds the deadlines that a replica watches for requests that wait.
	maxDeadlines = 100_000
	// deadlineGrace is how long an attention replica has to end a late request itself.
	deadlineGrace = 600 * time.Millisecond
)

// Endings are the requests that are ended here: cancelled ones, those with their stop
// string, and late ones.
type Endings struct {
	*common
	cancelled *recently
	// soon are requests that end unless attention ends them before; overdue are those whose
	// deadline passes while they wait.
	soon, overdue *timers
	// owned are those of which it is looked up whether they are of the tenant that wants their end,
	// in shares of the tenants.
	owned  *timers
	shares *policy.Portions
	sender *Sender
}

func newEndings(c *common, sender *Sender) *Endings {
	return &Endings{
		common: c, cancelled: newRecently(maxCancelled, cancelledFor), sender: sender,
		owned: newTimers(maxTenantEnding, endingAtOnce), shares: policy.NewPortions(maxTenantEnding),
		soon: newTimers(maxEnding, endingAtOnce), overdue: newTimers(maxDeadlines, endingAtOnce),
	}
}

// onCancelled remembers what was cancelled; every replica hears it.
func (s *Endings) onCancelled(m *nats.Msg) {
	if request := schemas.LastToken(m.Subject); s.isSignal(m) && schemas.CheckRequestID(request) == nil {
		s.cancelled.add(request, time.Now())
	}
}

// onCancelledOne ends requests that no attention replica has: those that wait.
func (s *Endings) onCancelledOne(m *nats.Msg) {
	if s.isSignal(m) {
		s.endSoon(schemas.LastToken(m.Subject), "cancelled")
	}
}

// onStop ends a request that has its stop string, if attention lost the message.
func (s *Endings) onStop(m *nats.Msg) {
	if s.isSignal(m) {
		s.endSoon(schemas.LastToken(m.Subject), "stop")
	}
}

// endSoon ends a request unless attention does it before.
func (s *Endings) endSoon(request, reason string) {
	if err := schemas.CheckRequestID(request); err != nil {
		s.metrics.Refused.Inc()
		s.d.Logger.Debug("not ending a request", "error", err)
		return
	}
	s.soon.note(request, cancelGrace, func(ctx context.Context) {
		s.Finish(ctx, request, &pb.Terminal{FinishReason: reason})
	})
}

// Finish ends a request that may have ended, or may never have been.
func (s *Endings) Finish(ctx context.Context, request string, end *pb.Terminal) {
	err := s.log.Finish(ctx, request, end)
	if err != nil && !errors.Is(err, tokenlog.ErrFinished) && !errors.Is(err, tokenlog.ErrUnknown) && ctx.Err() == nil {
		s.d.Logger.Warn("ending a request", "request", request, "reason", end.FinishReason, "error", err)
	}
}

// Cancel ends a request as its producer would.
func (s *Endings) Cancel(request string) { s.signal(s.d.Subjects.Cancelled(request)) }

// Cancelled reports whether a tenant's request was cancelled lately, as before it came.
func (s *Endings) Cancelled(tenant, request string) bool {
	now := time.Now()
	return s.cancelled.has(request, now) || s.cancelled.has(ofTenant(tenant, request), now)
}

// EndOverdue ends a request that waits for attention past its deadline. An
// attention replica that has it, or gets it later, sees to that itself.
func (s *Endings) EndOverdue(request string, left time.Duration) {
	if left == 0 {
		return
	}
	s.overdue.note(request, left+deadlineGrace, func(ctx context.Context) {
		late := edge.Errorf(edge.DeadlineExceeded, "the deadline passed while the request waited")
		s.Finish(ctx, request, &pb.Terminal{FinishReason: "error", Error: edge.Proto(late)})
	})
}
