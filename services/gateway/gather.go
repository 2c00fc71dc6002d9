package gateway

import (
	"context"
	"iter"
	"sync"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// got is a chunk of one of several answers.
type got struct {
	answer int
	echo   *echo
	chunk  *pb.Chunk
}

// push takes it into its answer, and returns what that tells: the prompt, where it is told, and
// what has come.
func (g got) push(c *openai.Choice, t *tale) (pieces [2]openai.Piece) {
	if g.chunk.Score != nil {
		if g.echo != nil {
			g.echo.score(g.chunk.Score)
		}
		return pieces
	}
	t.chunk(g.chunk)
	if g.echo != nil && !g.echo.told {
		g.echo.told = true
		pieces[0] = c.Echo(g.echo.text, g.echo.tokens)
	}
	pieces[1] = c.Push(g.chunk)
	return pieces
}

// gather asks for all answers at once, and yields their chunks as they come. The first error
// ends it, and all that is under way.
func (d *Door) gather(ctx context.Context, to upstream.To, all []*asking) iter.Seq2[got, error] {
	if len(all) == 1 {
		return d.one(ctx, to, 0, all[0])
	}
	return func(yield func(got, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var asked sync.WaitGroup
		defer asked.Wait()
		defer cancel()
		type item struct {
			got
			err error
		}
		items := make(chan item)
		for i, a := range all {
			asked.Go(func() {
				for g, err := range d.one(ctx, to, i, a) {
					select {
					case items <- item{g, err}:
					case <-ctx.Done():
						return
					}
				}
			})
		}
		go func() { asked.Wait(); close(items) }()
		for i := range items {
			if !yield(i.got, i.err) || i.err != nil {
				return
			}
		}
	}
}

// one asks for one answer. What its last chunk says of a failure is an error.
func (d *Door) one(ctx context.Context, to upstream.To, answer int, a *asking) iter.Seq2[got, error] {
	return func(yield func(got, error) bool) {
		ended := false
		for chunk, err := range begins(d.Upstream.Ask(ctx, to, a.prompt), a.begun) {
			if err == nil {
				err = client.Failure(chunk)
			}
			if err != nil {
				yield(got{answer: answer}, err)
				return
			}
			ended = chunk.FinishReason != ""
			if !yield(got{answer, a.echo, chunk}, nil) {
				return
			}
		}
		if !ended {
			yield(got{answer: answer}, &client.Error{Code: client.CodeInternal, Message: "the answer has no end"})
		}
	}
}

// begins yields chunks, and calls begun before the first one.
func begins(chunks upstream.Chunks, begun func()) upstream.Chunks {
	once := sync.OnceFunc(begun)
	return func(yield func(*pb.Chunk, error) bool) {
		chunks(func(chunk *pb.Chunk, err error) bool {
			once()
			return yield(chunk, err)
		})
	}
}
