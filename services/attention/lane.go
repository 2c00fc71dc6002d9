package attention

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/batching"
	"github.com/switchyard/switchyard/pkg/forward"
	"github.com/switchyard/switchyard/pkg/sampling"
	"github.com/switchyard/switchyard/pkg/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// microbatch is what a lane takes through the layers, and what came of it.
type microbatch struct {
	parts []part
	err   error
}

// part is one sequence's rows in a microbatch.
type part struct {
	s    *sequence
	rows int
	// Filled by the lane: the next token if the sequence's last row was in it,
	// and the scores of prompt positions.
	sampled bool
	choice  sampling.Choice
	scores  []*pb.Score
}

// lane runs one microbatch at a time.
type lane struct {
	step    forward.Step
	remote  *remote
	tracer  *telemetry.Tracer
	stats   *stats
	sampler sampling.Sampler
	rows    []forward.Row
	in      chan *microbatch
}

func (l *lane) run(ctx context.Context, finished chan<- *microbatch) {
	for {
		select {
		case <-ctx.Done():
			return
		case mb := <-l.in:
			mb.err = l.forward(ctx, mb)
			select {
			case finished <- mb:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *lane) forward(ctx context.Context, mb *microbatch) error {
	began := time.Now()
	ctx, watch, end := beginStep(ctx, l.tracer, mb)
	defer end()
	l.step.Watch = watch
	l.rows = l.rows[:0]
	for i := range mb.parts {
		l.rows = appendRows(l.rows, &mb.parts[i])
	}
	logits, err := l.step.Run(ctx, l.rows)
	if err != nil {
		return err
	}
	vocab := len(logits) / max(1, wanted(l.rows))
	for i := range mb.parts {
		logits = l.settle(&mb.parts[i], logits, vocab)
	}
	l.stats.step(mb, time.Since(began))
	return nil
}

func appendRows(rows []forward.Row, p *part) []forward.Row {
	s := p.s
	for i := range p.rows {
		pos := s.done + i
		last := pos == len(s.ids)-1
		rows = append(rows, forward.Row{
			Table: s.table, ID: s.ids[pos], Position: pos, Logits: last || s.wantsScore(pos),
		})
	}
	return rows
}

func (s *sequence) wantsScore(pos int) bool {
	return s.scores() && pos < s.prompt() && pos >= s.scored
}

func wanted(rows []forward.Row) (n int) {
	for _, r := range rows {
		if r.Logits {
			n++
		}
	}
	return n
}

// settle uses up the part's logits (those of its rows that wanted them, (n,
// vocab)) and returns the rest.
func (l *lane) settle(p *part, logits []float32, vocab int) []float32 {
	s := p.s
	for i := range p.rows {
		pos := s.done + i
		last := pos == len(s.ids)-1
		if !last && !s.wantsScore(pos) {
			continue
		}
		row := logits[:vocab]
		if s.wantsScore(pos) {
			p.scores = append(p.scores, score(s, pos, row))
		}
		if last && s.generated() < int(s.seq.MaxTokens) {
			p.sampled = true
			p.choice = l.sampler.Next(row, s.params, s.ids, s.generated())
		}
		logits = logits[vocab:]
	}
	return logits
}

func score(s *sequence, pos int, logits []float32) *pb.Score {
	out := &pb.Score{Position: int32(pos)}
	if pos+1 < s.prompt() {
		lp := logits[s.seq.PromptIds[pos+1]] - sampling.LogSumExp(logits)
		out.Logprob = &lp
	}
	if s.seq.Score == "logits" {
		out.Logits = append([]float32(nil), logits...)
	}
	return out
}

// newMicrobatch marks the chosen sequences as in flight.
func newMicrobatch(ready []*sequence, takes []batching.Take) *microbatch {
	mb := &microbatch{parts: make([]part, len(takes))}
	for i, t := range takes {
		s := ready[t.Index]
		s.inFlight = true
		mb.parts[i] = part{s: s, rows: t.Rows}
	}
	return mb
}
