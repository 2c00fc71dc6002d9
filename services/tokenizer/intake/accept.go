package intake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// admit opens the request's log and hands its sequence to attention.
func (s *Prompts) admit(ctx context.Context, in *incoming) error {
	ctx, span := s.tracer.Child(ctx, telemetry.SpanTokenize)
	defer span.End()
	req, why := s.resolve(ctx, in)
	if why == nil {
		s.fitDefault(in.prompt, req.Sequence)
		why = s.checkCapacity(req.Sequence)
	} else if !isLate(why) {
		return why
	}
	hash, err := edge.BodyHash(in.prompt)
	switch {
	case err != nil:
		return err
	case why != nil:
		return s.endUntaken(ctx, in, hash, why)
	}
	if err := s.checkSizes(req.Sequence, in.encoding); err != nil {
		return err
	}
	accept := s.acceptance(ctx, in, req, hash)
	if err := s.findRoom(ctx, in, req.Sequence, accept); err != nil {
		return err
	}
	existing, err := s.open(ctx, in, accept)
	switch {
	case err != nil:
		return notOpened(in, err)
	case existing == nil:
		s.admission.Accepted(in.request(), accept)
		if s.delivery.Shards.Owns(in.prompt.RequestId) {
			in.followed = admission.AnnouncedWithin
		}
	case tokenlog.SameOpening(existing, accept):
		accept = existing // our own prompt again: go on with it
		req.Sequence.Sampling.Seed = existing.Seed
	default:
		return s.repeat(ctx, in, existing, hash)
	}
	if s.delivery.Endings.Cancelled(in.flow.Tenant, in.prompt.RequestId) {
		return s.end(ctx, in.prompt.RequestId, &pb.Terminal{FinishReason: "cancelled"})
	}
	req.Sequence.Accept = brief(accept)
	return s.submit(ctx, in, req.Sequence, req.Deadline)
}

// notOpened is what a producer is told of a log that cannot be opened, or why to try again.
func notOpened(in *incoming, err error) error {
	var large *bus.TooLargeError
	switch {
	case bus.IsFull(err) && !in.again():
		return edge.Errorf(edge.Overloaded, "the token log is full")
	case errors.As(err, &large):
		return edge.Errorf(edge.PayloadTooLarge, "what the token log keeps of the request is too large: %v", large)
	case errors.Is(err, tokenlog.ErrNotWhole), errors.Is(err, tokenlog.ErrNoisy):
		return edge.Errorf(edge.BadRequest, "request_id %q was used before, and its answer cannot be read here; choose a new one", in.prompt.RequestId)
	}
	return fmt.Errorf("opening the token log: %w", err) // Elsewhere's, too
}

// resolve tokenizes a prompt: beside others, or alone if it was delivered before.
func (s *Prompts) resolve(ctx context.Context, in *incoming) (req *edge.Request, why error) {
	leave, err := s.desk.enter(ctx, in.flow, tokenizedBytes(in.prompt))
	if err != nil {
		return nil, err
	}
	defer func() { s.charge(in.flow, leave(), why) }()
	if in.again() {
		s.computing.Lock()
		defer s.computing.Unlock()
	} else {
		defer s.beside()()
	}
	req, err = s.model.Resolve(in.prompt, s.probe.Streams.Clock.Now(), rand.Uint32())
	if err == nil && in.flow.IsCanary() {
		req.Deadline = probe.CanaryWithin
	}
	return req, err
}

// charge counts against a tenant what was refused: it took time all the same.
func (s *common) charge(flow schemas.Flow, took time.Duration, why error) {
	var refused *edge.Error
	if errors.As(why, &refused) && !flow.IsCanary() {
		s.admission.ChargeTime(flow.Tenant, 1, took)
	}
}

// findRoom refuses a request that would begin too late, or whose log has no room.
func (s *Prompts) findRoom(ctx context.Context, in *incoming, seq *pb.Sequence, accept *pb.Accept) error {
	if !in.flow.IsCanary() {
		if err := s.unlessTaken(ctx, in, s.admission.CheckForecast(in.request(), accept)); err != nil {
			return err
		}
	}
	return s.unlessTaken(ctx, in, s.admission.Reserve(in.request(), int64(accept.LogBytes), packedBytes(seq, s.scored())+s.fateBytes(seq)))
}

// upgradeTime is when a producer may ask again for what an earlier release does not know.
const upgradeTime = 10 * time.Second

// fitDefault lets a request that does not say how long its answer may be have what the largest
// attention replica can hold.
func (s *Prompts) fitDefault(p *pb.Prompt, seq *pb.Sequence) {
	largest := members.LargestKV(s.members.Snapshot(), s.d.Identity.Model)
	if p.MaxTokens != nil || largest == 0 || len(seq.Fill) > 0 || seq.MaxTokens == 0 {
		return
	}
	shape, most := kvcache.ShapeOf(&s.d.Model.Spec), int(seq.MaxTokens)
	shape.Rows = 1 // as in checkCapacity
	tooMany := sort.Search(most, func(n int) bool {
		return float64(shape.Need(edge.Positions(&pb.Sequence{PromptIds: seq.PromptIds, Source: seq.Source, MaxTokens: int32(n + 1)}))) > largest
	})
	seq.MaxTokens = int32(max(1, tooMany))
}

// checkCapacity refuses what no live attention replica can hold.
func (s *Prompts) checkCapacity(seq *pb.Sequence) error {
	all := s.members.Snapshot()
	if level := edge.SamplingOf(seq); !members.Samples(all, s.d.Identity.Model, level) {
		return &edge.Error{Code: edge.ModelNotReady, RetryAfter: upgradeTime, Message: "the request asks for sampling that an attention replica of an earlier release here does not know: ask again when all are upgraded, or leave out min_p, min_tokens, logit_bias, presence_penalty, frequency_penalty"}
	}
	if longest := members.LongestContext(all, s.d.Identity.Model); longest > 0 && float64(edge.Positions(seq)) > longest {
		return edge.Errorf(edge.BadRequest, "%d prompt and %d new tokens do not fit the longest context of an attention replica, %.0f: ask for fewer, or give all services the same --max-model-len",
			len(seq.PromptIds), seq.MaxTokens, longest)
	}
	shape := kvcache.ShapeOf(&s.d.Model.Spec)
	shape.Rows = 1 // at least; how many a replica computes at once is its own affair
	need := shape.Need(edge.Positions(seq))
	largest := members.LargestKV(all, s.d.Identity.Model)
	if largest == 0 || float64(need) <= largest {
		return nil // 0: none has said; the one that takes it will
	}
	return edge.Errorf(edge.BadRequest, "%d prompt and %d new tokens need %d KV pages; the largest attention replica has %.0f: ask for fewer, or raise its --kv-memory",
		len(seq.PromptIds), seq.MaxTokens, need, largest)
}

func isLate(err error) bool {
	var refused *edge.Error
	return errors.As(err, &refused) && refused.Code == edge.DeadlineExceeded
}

// acceptance is what opens the log of a request.
func (s *Prompts) acceptance(ctx context.Context, in *incoming, req *edge.Request, hash []byte) *pb.Accept {
	header := nats.Header{}
	telemetry.Propagator{}.Inject(ctx, header)
	accept := &pb.Accept{
		Identity: s.delivery.Kinds.Identity(), BodyHash: hash, PromptSequence: in.sequence, ReplyTo: in.reply,
		Encoding: in.encoding, FromIndex: in.prompt.FromIndex, Stop: req.Stop,
		PromptTokens: int32(len(req.Sequence.PromptIds)), Seed: req.Sequence.Sampling.Seed,
		DeadlineMs: uint32(req.Deadline.Milliseconds()), Interactive: in.ask != "", Ask: in.ask,
		Tenant: in.flow.Tenant, Class: string(in.flow.Class), Weight: s.admission.Weight(in.flow.Tenant),
		Arrived: in.arrived.UnixNano(), MixedClasses: s.d.Mixed(),
		MaxTokens: req.Sequence.MaxTokens, MinTokens: req.Sequence.Sampling.MinTokens, Parse: req.Parse, Traceparent: first(header["traceparent"]),
		LogBytes: uint64(logBytes(s.d.Streams.Subjects.Token(in.prompt.RequestId), req.Sequence, s.scored()) + s.fateBytes(req.Sequence)),
		Sequence: asked(req.Sequence), NumericClass: s.d.Kind().NumericClass, Wire: s.d.Kind().Wire,
	}
	if len(req.Sequence.Fill) > 0 {
		accept.FilledIds, accept.Fill = req.Sequence.PromptIds, req.Sequence.Fill
	}
	return accept
}

// asked is what a log keeps of a sequence, so that it can be computed again.
func asked(seq *pb.Sequence) *pb.Sequence {
	kept := proto.CloneOf(seq)
	kept.Identity, kept.RequestId, kept.Accept = nil, "", nil
	return kept
}

// brief is an acceptance without what the sequence that carries it has itself.
func brief(a *pb.Accept) *pb.Accept {
	b := proto.CloneOf(a)
	b.Sequence = nil
	return b
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (s *Prompts) submit(ctx context.Context, in *incoming, seq *pb.Sequence, left time.Duration) error {
	seq.Identity = s.delivery.Kinds.Identity()
	// Within the stream's window a redelivered prompt gives no second sequence;
	// beyond it the token log has only one owner all the same.
	header := nats.Header{nats.MsgIdHdr: {in.prompt.RequestId}}
	message, err := s.d.Conn.Store(ctx, s.d.Subjects.Sequence(), seq, header)
	if err != nil {
		var large *bus.TooLargeError
		switch {
		case bus.IsFull(err):
			return s.turnAway(ctx, in.prompt.RequestId, edge.Errorf(edge.Overloaded, "too many requests wait already"))
		case errors.As(err, &large):
			return s.turnAway(ctx, in.prompt.RequestId, edge.Errorf(edge.PayloadTooLarge, "the tokens of the prompt: %v", large))
		}
		return fmt.Errorf("handing the sequence to attention: %w", err)
	}
	s.delivery.Endings.EndOverdue(in.prompt.RequestId, left)
	if in.flow.IsCanary() {
		return nil
	}
	s.probe.Sequences.Add(message)
	s.metrics.PromptTokens().Add(float64(len(seq.PromptIds)))
	s.presence.Add(members.Requests, 1)
	s.presence.Add("prompt_tokens_total", float64(len(seq.PromptIds)))
	return nil
}

// turnAway ends a request whose log is open already: its readers are told.
func (s *Prompts) turnAway(ctx context.Context, request string, why error) error {
	return s.end(ctx, request, &pb.Terminal{FinishReason: "error", Error: edge.Proto(admission.RetryLater(why))})
}

// What a position's log-probabilities and logits take at most, in bytes.
const (
	// chunkRoom is for the rest of a chunk or record, and its headers.
	chunkRoom       = 4096
	logitBytes      = 4
	jsonLogitBytes  = 16 // such as -1.17549435e-38 and a comma
	candidateBytes  = 16
	jsonCandidate   = 64        // such as {"id":4294967295,"logprob":-1.17549435e-38,"token":""},
	pieceBytes      = 512       // the token of a candidate, in a chunk
	candidatesExtra = 1         // the chosen one
	recordRoom      = 52        // the rest of a token's or score's record
	logRoom         = 2048      // the records of a log that are neither
	idBytes         = 5         // an id, or a place, of a prompt whose masks are filled
	degradedRoom    = 26        // what a token's record has of what a brownout changed so far
	fateRoom        = 40        // the rest of a row's fates
	maxFates        = 320 << 10 // of a prompt
)

// largestChunk bounds the bytes of a chunk, or of its record in the token log.
func largestChunk(seq *pb.Sequence, encoding pb.Encoding, vocab int) int64 {
	logit, candidate := int64(logitBytes), int64(candidateBytes)
	if encoding == pb.Encoding_ENCODING_JSON {
		logit, candidate = jsonLogitBytes, jsonCandidate
	}
	size := int64(chunkRoom) + (candidate+pieceBytes)*int64(seq.GetSampling().GetLogprobs()+candidatesExtra)
	if seq.Score == "logits" {
		size += logit * int64(vocab)
	}
	return size
}

// logBytes bounds what a request's log takes, under its subject.
func logBytes(subject string, seq *pb.Sequence, vocab int) int64 {
	size := logRoom + fillBytes(seq) + int64(proto.Size(seq)) + int64(seq.MaxTokens)*tokenlog.StoredSize(subject, recordRoom+candidates(seq))
	if seq.Score != "" {
		size += int64(len(seq.PromptIds)) * tokenlog.StoredSize(subject, recordRoom+logits(seq, vocab))
	}
	return size
}

// packedBytes bounds what remains of a log when its end was delivered and it was packed.
func packedBytes(seq *pb.Sequence, vocab int) int64 {
	size := logRoom + fillBytes(seq) + int64(proto.Size(seq)) + int64(seq.MaxTokens)*idBytes
	if n := candidates(seq); n > 0 {
		size += int64(seq.MaxTokens) * (recordRoom + n)
	}
	if seq.Score != "" {
		size += int64(len(seq.PromptIds)) * (recordRoom + logits(seq, vocab))
	}
	return size
}

// fateBytes bounds what a log has of what becomes of its rows, where a brownout may come.
func (s *common) fateBytes(seq *pb.Sequence) int64 {
	if seq.OwnExperts || !members.MayDegrade(s.members.Snapshot()) {
		return 0
	}
	return degradedBytes(seq, len(s.d.MoELayers())*s.d.Model.Spec.TopK)
}

// degradedBytes bounds what a log has of a brownout, of rows with so many slots in all layers.
func degradedBytes(seq *pb.Sequence, slots int) int64 {
	row := int64(fateRoom + (slots+3)/4)
	return min(maxFates, int64(len(seq.PromptIds))*row) + int64(seq.MaxTokens)*(degradedRoom+row)
}

// candidates bounds the log-probabilities of one token.
func candidates(seq *pb.Sequence) int64 {
	if n := seq.GetSampling().GetLogprobs(); n >= 0 {
		return candidateBytes * int64(n+candidatesExtra)
	}
	return 0
}

// logits bounds the numbers of one score.
func logits(seq *pb.Sequence, vocab int) int64 {
	switch seq.Score {
	case "logits":
		return logitBytes * int64(vocab)
	case "logprobs":
		return candidates(seq)
	}
	return 0
}

// fillBytes bounds what an acceptance keeps of a prompt whose masks are filled.
func fillBytes(seq *pb.Sequence) int64 {
	if len(seq.Fill) == 0 {
		return 0
	}
	return idBytes * int64(len(seq.PromptIds)+len(seq.Fill))
}

// scored is how many numbers a score has at most: logits or what an encoder made.
func (s *common) scored() int { return max(s.d.Model.Spec.Vocab, s.d.Model.Spec.Hidden) }

// checkSizes refuses a request whose chunks or records the server would not
// take: it would never end.
func (s *common) checkSizes(seq *pb.Sequence, encoding pb.Encoding) error {
	size, limit := largestChunk(seq, encoding, s.scored()), s.d.Conn.MaxPayload()
	if size <= limit {
		return nil
	}
	return edge.Errorf(edge.PayloadTooLarge,
		"one chunk of this answer may have %d bytes (score %q, logprobs %d, a vocabulary of %d), and the NATS server takes %d: ask for less (score logprobs instead of logits), use protobuf instead of JSON, or raise max_payload",
		size, seq.Score, max(0, seq.GetSampling().GetLogprobs()), s.d.Model.Spec.Vocab, limit)
}
