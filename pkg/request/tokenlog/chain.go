package tokenlog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ErrNoise says that a message is no record of its log: it cannot be read, or
// it does not follow those before. Every reader passes over it, so that it
// changes nothing.
var ErrNoise = errors.New("not a record of this log")

// Rules are what this deployment's records obey.
type Rules struct {
	// Model is the model's part of every acceptance's identity, Version the other one; 0:
	// the one that is spoken here.
	Model   uint64
	Version uint32
	// Vocab is the number of token ids.
	Vocab int
	// Positions is the most that the model has: a prompt and its answer together.
	Positions int
	// Hidden is the elements of a row.
	Hidden int
}

// Chain takes the messages of one log in their order and tells the records that
// follow from noise. It is the one place that decides this, whoever reads. The
// zero value but for its rules is an empty log.
//
//	accept ──▶ claim(1) ──▶ scores ──▶ tokens ──▶ terminal
//	             ▲  claim(n+1) │          │
//	             └─────────────┴──────────┘        packed stands for all of it
type Chain struct {
	rules Rules

	accept *pb.Accept
	epoch  uint64
	scored int32
	tokens int32
	last   bool // a token has come that ends the sequence
	end    *pb.Terminal
	claims int  // since the last token or score
	trials int  // since then, that began and were not over
	trying bool // one of them is the current owner's
	broken error
	// foreign is whose acceptance lies there, if replicas of another kind wrote one:
	// what follows that is theirs.
	foreign *pb.Identity
	// sum tells tokens of the same number apart by their ids, and had is what came of a log before it was lost,
	// in whole or in part: that comes again and is not new.
	sum uint64
	had had

	one [1]*pb.Record
}

// had is what a reader has had of a log.
type had struct {
	accept         *pb.Accept
	tokens, scored int32
	sum            uint64
}

// Again returns the chain of the same log as it comes from its beginning once more: what had come before is not new.
func (c *Chain) Again() Chain {
	known := had{c.accept, c.tokens, c.scored, c.sum}
	if c.tokens < c.had.tokens || known.accept == nil {
		known.accept, known.tokens, known.sum = c.had.accept, c.had.tokens, c.had.sum
	}
	known.scored = max(known.scored, c.had.scored)
	return Chain{rules: c.rules, had: known}
}

// ErrOtherTokens says that tokens were computed again, and are not those that were lost.
var ErrOtherTokens = errors.New("records of it were lost, and its tokens were others when they were computed again")

// comesAgain reports whether a record that was added had come before it was lost.
func (c *Chain) comesAgain(r *pb.Record) (bool, error) {
	switch k := r.Kind.(type) {
	case *pb.Record_Accept:
		if c.had.accept != nil && !SameOpening(c.had.accept, k.Accept) {
			c.had = had{} // the id is another request's now
		}
		return c.had.accept != nil, nil
	case *pb.Record_Score:
		return k.Score.Position < c.had.scored, nil
	case *pb.Record_Token:
		if c.tokens == c.had.tokens && c.sum != c.had.sum {
			c.broken = ErrOtherTokens
			return true, c.broken
		}
		return k.Token.Index < c.had.tokens, nil
	}
	return false, nil
}

// NewChain returns an empty log's chain.
func NewChain(r Rules) Chain { return Chain{rules: r} }

// Accept returns what the log was opened with; nil if that has not come.
func (c *Chain) Accept() *pb.Accept { return c.accept }

// Opened is Accept, or what the log was opened with before it was lost.
func (c *Chain) Opened() *pb.Accept {
	if c.accept != nil {
		return c.accept
	}
	return c.had.accept
}

// Foreign returns the identity of the replicas that alone have accepted the request, where
// they are of another version or model; nil: replicas of this one have, or nobody.
func (c *Chain) Foreign() *pb.Identity {
	if c.accept != nil {
		return nil
	}
	return c.foreign
}

// End returns the terminal record; nil while there is none.
func (c *Chain) End() *pb.Terminal { return c.end }

// Tokens returns how many tokens have come.
func (c *Chain) Tokens() int32 { return c.tokens }

// Broken says why the log is not whole: nobody may go on with it.
func (c *Chain) Broken() error { return c.broken }

// sumPrime is FNV's for 64 bits.
const sumPrime = 1099511628211

// Take returns the records that a message adds: itself, nothing for what was
// there before, or what of a packed log has not come yet. The slice is valid
// until the next call. An ErrNoise changes nothing but Broken.
func (c *Chain) Take(r *pb.Record) ([]*pb.Record, error) {
	if p := r.GetPacked(); p != nil {
		return c.unpack(p)
	}
	if a := r.GetAccept(); a != nil && c.accept != nil && SameOpening(a, c.accept) {
		if r.Epoch == 0 || c.end != nil {
			return nil, nil
		}
		*c = c.Again() // Restart wrote it
	}
	if err := c.check(r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoise, err)
	}
	c.add(r)
	if again, err := c.comesAgain(r); again {
		return nil, err
	}
	c.one[0] = r
	return c.one[:], nil
}

func (c *Chain) check(r *pb.Record) error {
	if c.end != nil {
		return errors.New("it comes after the end")
	}
	switch k := r.Kind.(type) {
	case *pb.Record_Accept:
		return c.checkAccept(k.Accept)
	case *pb.Record_Claim:
		return c.checkClaim(r)
	case *pb.Record_Token:
		return c.checkToken(r.Epoch, k.Token)
	case *pb.Record_Score:
		return c.checkScore(r.Epoch, k.Score)
	case *pb.Record_Trial:
		return c.checkTrial(r.Epoch, k.Trial)
	case *pb.Record_Terminal:
		return c.checkTerminal(k.Terminal)
	}
	return errors.New("it has no kind")
}

// made reports whether replicas that obey these rules accept under an identity.
func (r *Rules) made(id *pb.Identity) bool {
	return id.GetVersion() == cmp.Or(r.Version, schemas.Version) && id.GetModel() == r.Model
}

func (c *Chain) checkAccept(a *pb.Accept) error {
	switch id := a.GetIdentity(); {
	case c.accept != nil:
		return errors.New("a second acceptance")
	case !c.rules.made(id):
		c.foreign = cmp.Or(id, &pb.Identity{})
		return fmt.Errorf("an acceptance of schema version %d for model %016x", id.GetVersion(), id.GetModel())
	case a.MaxTokens < 0 || a.PromptTokens < 0 || int64(a.MaxTokens)+int64(a.PromptTokens) > int64(c.rules.Positions):
		return fmt.Errorf("an acceptance of %d prompt and %d new tokens for a model of %d positions", a.PromptTokens, a.MaxTokens, c.rules.Positions)
	}
	return checkFill(a)
}

// checkFill sees to it that each token has its place in the prompt.
func checkFill(a *pb.Accept) error {
	if len(a.FilledIds) == 0 && len(a.Fill) == 0 {
		return nil
	}
	if len(a.FilledIds) != int(a.PromptTokens) || int(a.MaxTokens) > len(a.Fill) {
		return fmt.Errorf("an acceptance with %d of %d prompt tokens, to fill %d places with %d", len(a.FilledIds), a.PromptTokens, len(a.Fill), a.MaxTokens)
	}
	for i, at := range a.Fill {
		if int64(at) >= int64(len(a.FilledIds)) || i > 0 && at <= a.Fill[i-1] {
			return fmt.Errorf("an acceptance with place %d out of order, or outside of %d tokens", at, len(a.FilledIds))
		}
	}
	return nil
}

// started notices a log whose beginning is gone.
func (c *Chain) started() error {
	switch {
	case c.accept != nil:
		return nil
	case c.foreign != nil:
		return errors.New("it belongs to an acceptance of another version or model")
	}
	c.broken = errors.New("it does not begin with its acceptance")
	return c.broken
}

func (c *Chain) checkClaim(r *pb.Record) error {
	if err := c.started(); err != nil {
		return err
	}
	if r.Writer == "" || r.Epoch != c.epoch+1 {
		return fmt.Errorf("a claim of epoch %d by %q after epoch %d", r.Epoch, r.Writer, c.epoch)
	}
	return nil
}

func (c *Chain) checkEpoch(epoch uint64) error {
	if err := c.started(); err != nil {
		return err
	}
	if epoch == 0 || epoch != c.epoch {
		return fmt.Errorf("a record of epoch %d in epoch %d", epoch, c.epoch)
	}
	return nil
}

func (c *Chain) checkToken(epoch uint64, t *pb.Token) error {
	if err := c.checkEpoch(epoch); err != nil {
		return err
	}
	switch {
	case !isCost(t.Cost):
		return fmt.Errorf("token %d has cost %v GB·s, want 0 or more", t.Index, t.Cost.ExpertGbS)
	case int64(t.Id) >= int64(c.rules.Vocab):
		return fmt.Errorf("token id %d is outside the vocabulary of %d", t.Id, c.rules.Vocab)
	case c.last || t.Index >= c.accept.MaxTokens:
		return fmt.Errorf("token %d comes after the last", t.Index)
	case t.Index > c.tokens:
		c.broken = fmt.Errorf("token %d comes where token %d is due", t.Index, c.tokens)
		return c.broken
	case t.Index < c.tokens:
		return fmt.Errorf("token %d comes again", t.Index)
	}
	return nil
}

func (c *Chain) checkScore(epoch uint64, s *pb.Score) error {
	if err := c.checkEpoch(epoch); err != nil {
		return err
	}
	switch {
	case s.Position >= c.accept.PromptTokens || c.tokens > 0 || len(s.Logits) > c.rules.Vocab || len(s.Hidden) > c.rules.Hidden:
		return fmt.Errorf("a score of position %d with %d logits and %d hidden elements, in a prompt of %d tokens, after %d tokens",
			s.Position, len(s.Logits), len(s.Hidden), c.accept.PromptTokens, c.tokens)
	case s.Position > c.scored:
		c.broken = fmt.Errorf("the score of position %d comes where %d is due", s.Position, c.scored)
		return c.broken
	case s.Position < c.scored:
		return fmt.Errorf("the score of position %d comes again", s.Position)
	}
	return nil
}

// checkTerminal takes an end also where the acceptance is gone, or another kind's: such a
// log shall end, too. An answer that calls itself complete must be, as far as is known here.
func (c *Chain) checkTerminal(t *pb.Terminal) error {
	if !isCost(t.GetCost()) {
		return fmt.Errorf("an end with cost %v GB·s, want 0 or more", t.Cost.ExpertGbS)
	}
	switch t.GetFinishReason() {
	case "stop", "cancelled":
	case "error":
		if t.GetError().GetCode() == "" {
			return errors.New("an end by an error without its code")
		}
		return nil
	case "length":
		if c.accept != nil && c.tokens != c.accept.MaxTokens {
			return fmt.Errorf("an end by length after %d tokens", c.tokens)
		}
	default:
		return fmt.Errorf("an end by %q", t.GetFinishReason())
	}
	if t.Error != nil {
		return fmt.Errorf("an end by %q with an error", t.FinishReason)
	}
	return nil
}

// isCost reports whether what a request took of memory can be; nil is nothing.
func isCost(c *pb.Cost) bool { return c.GetExpertGbS() >= 0 && c.GetExpertGbS() <= math.MaxFloat64 }

func (c *Chain) add(r *pb.Record) {
	switch k := r.Kind.(type) {
	case *pb.Record_Accept:
		c.accept = k.Accept
		if k.Accept.Lost && c.broken == nil {
			c.broken = errors.New("its records are gone")
		}
	case *pb.Record_Claim:
		c.epoch = r.Epoch
		c.claims++
		c.trying = false
	case *pb.Record_Trial:
		c.tried(k.Trial)
	case *pb.Record_Token:
		c.tokens++
		c.sum = (c.sum ^ uint64(k.Token.Id)) * sumPrime
		c.last = k.Token.Stop
		c.progress()
	case *pb.Record_Score:
		c.scored++
		c.progress()
	case *pb.Record_Terminal:
		c.end = k.Terminal
	}
}

// unpack takes a packed log, which must be a whole one by itself.
func (c *Chain) unpack(p *pb.Packed) (rest []*pb.Record, err error) {
	if c.end != nil && c.accept != nil {
		return nil, nil // its own records came before
	}
	if c.accept != nil && !SameOpening(c.accept, p.Accept) {
		return nil, fmt.Errorf("%w: the packed log of another request", ErrNoise)
	}
	if max(len(p.TokenIds), len(p.Scores)) > c.rules.Positions {
		return nil, fmt.Errorf("%w: %d tokens and %d scores in one record", ErrNoise, len(p.TokenIds), len(p.Scores))
	}
	whole := Chain{rules: c.rules, epoch: packedEpoch}
	for _, r := range unfold(p) {
		lacking := c.lacks(r)
		if _, err := whole.Take(r); err != nil {
			c.foreign = cmp.Or(whole.foreign, c.foreign)
			return nil, fmt.Errorf("packed: %w", err)
		}
		if lacking {
			rest = append(rest, r)
		}
	}
	whole.had = c.had
	*c = whole
	return rest, nil
}

// lacks reports whether a record of the same log, whole, has not come yet.
func (c *Chain) lacks(r *pb.Record) bool {
	switch k := r.Kind.(type) {
	case *pb.Record_Accept:
		return c.accept == nil && c.had.accept == nil
	case *pb.Record_Score:
		return k.Score.Position >= max(c.scored, c.had.scored)
	case *pb.Record_Token:
		return k.Token.Index >= max(c.tokens, c.had.tokens)
	}
	return true
}

// SameOpening reports whether two acceptances are of one request, and not of two
// that had the same id one after the other.
func SameOpening(a, b *pb.Accept) bool {
	return a.GetPromptSequence() == b.GetPromptSequence() && bytes.Equal(a.GetBodyHash(), b.GetBodyHash())
}
