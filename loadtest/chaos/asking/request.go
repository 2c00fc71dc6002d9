package asking

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/loadtest/chaos/check"
	"github.com/switchyard/switchyard/loadtest/chaos/workload"
)

type job struct {
	*Load
	workload.Request
	prompt workload.Prompt
	expect check.Expect
	main   *reader
	acted  bool
	others sync.WaitGroup // readers beside the main one
}

// request sends the n-th request of a worker, and reads it to its end.
func (l *Load) request(ctx context.Context, worker, n int) {
	j := l.job(worker, n)
	from := l.Now()
	j.main = l.open(j.expect, "a")
	if err := l.publish(ctx, j.prompt, j.main, l.settings.Hang); err != nil {
		j.main.lose(l.Now(), "it was not accepted", err)
	} else {
		l.follow(ctx, j.main, func(next int) { j.act(ctx, next) })
	}
	j.others.Wait()
	l.close(j.main)
	l.note(worker, from, j.main)
	if n%keptOneOf == 0 && j.main.stream.Began() {
		l.keep(j.main)
	}
}

func (l *Load) keep(r *reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, r)
}

func (l *Load) job(worker, n int) *job {
	j := &job{Load: l, Request: l.settings.Workload.Of(worker, n)}
	j.prompt = l.settings.Workload.Variants()[j.Variant]
	j.prompt.RequestID = fmt.Sprintf("%s-%d-%d", l.settings.Run, worker, n)
	j.expect = check.Expect{Request: j.prompt.RequestID, Want: l.want[j.Variant], Ends: l.settings.Ends, Mixed: l.settings.Mixed}
	if l.settings.Plain {
		j.Act = workload.Read
	}
	switch j.Act {
	case workload.Cancel:
		j.expect.Ends = append([]string{"cancelled"}, l.settings.Ends...)
	case workload.Hurry:
		j.expect.Ends, j.expect.Deadline = append([]string{check.Late}, l.settings.Ends...), l.Now()+j.Within
		j.prompt.Deadline = time.Now().Add(j.Within).UTC().Format(time.RFC3339Nano)
	}
	return j
}

// act does once what the reader does beside reading.
func (j *job) act(ctx context.Context, next int) {
	if j.acted || next < j.At {
		return
	}
	j.acted = true
	switch j.Act {
	case workload.Cancel:
		_ = j.nc.Publish(j.subject("cancel")+"."+j.prompt.RequestID, nil) // it may be lost, as any message of core NATS
	case workload.Repeat:
		j.others.Go(func() { j.repeat(ctx) })
	case workload.Replay:
		j.others.Go(func() { j.again(ctx) })
	}
}

// repeat publishes the prompt again for a second reader.
func (j *job) repeat(ctx context.Context) {
	r := j.open(j.expect, "b")
	if err := j.publish(ctx, j.prompt, r, j.settings.Hang); err != nil {
		r.lose(j.Now(), "its repeat was not accepted", err)
	} else {
		j.follow(ctx, r, nil)
	}
	j.close(r)
}

// again has a second reader replay the answer.
func (j *job) again(ctx context.Context) {
	e := j.expect
	e.From = j.From
	r := j.open(e, "b")
	j.replay(r, e.From)
	j.follow(ctx, r, nil)
	j.close(r)
}

func (l *Load) note(worker int, from time.Duration, r *reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Span{Worker: worker, Request: r.request, From: from, To: l.Now()}
	for _, pause := range r.stream.Stalls() {
		if !pause.First {
			s.Stall = max(s.Stall, pause.Length())
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result.Spans = append(l.result.Spans, s)
	l.result.Ends[r.stream.Ended()]++
	l.result.Tokens += r.stream.Next()
}

const (
	// ackWithin is how long an acknowledgement may take before the prompt is
	// published again under its id, and publishPause the pause before that.
	ackWithin    = 2 * time.Second
	publishPause = 100 * time.Millisecond
)

// publish sends a prompt until it is acknowledged, for so long at most.
func (l *Load) publish(ctx context.Context, p workload.Prompt, r *reader, within time.Duration) error {
	p.ReplyTo = r.inbox
	body := encode(p)
	for deadline := time.Now().Add(within); ; {
		err := l.publishOnce(ctx, body)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(publishPause):
		}
	}
}

func (l *Load) publishOnce(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	m := nats.NewMsg(l.subject("prompt"))
	m.Data = body
	reply, err := l.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return err
	}
	var ack struct {
		Stream string `json:"stream"`
		Error  *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(reply.Data, &ack); {
	case err != nil:
		return fmt.Errorf("reading an acknowledgement: %w", err)
	case ack.Error != nil:
		return errors.New(ack.Error.Description)
	case ack.Stream == "":
		return fmt.Errorf("this is no acknowledgement: %.80q", reply.Data)
	}
	return nil
}

// encode makes JSON of what always can be.
func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return body
}
