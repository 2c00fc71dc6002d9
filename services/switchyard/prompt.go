package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
)

// PromptCmd sends one prompt.
type PromptCmd struct {
	Text []string `arg:"" optional:"" help:"The prompt; without it stdin is read."`

	Model             string        `default:"demo" help:"Model to ask." placeholder:"NAME"`
	Tenant            string        `default:"default" help:"Whose request it is." placeholder:"NAME"`
	Class             string        `default:"normal" enum:"high,normal,low" help:"How urgent it is among the tenant's own: high, normal or low." placeholder:"CLASS"`
	IDs               []uint32      `name:"ids" help:"Token ids in place of text, such as 1,15,7; may be given several times." placeholder:"ID"`
	Chat              bool          `help:"Send the prompt as a user's message through the model's chat template."`
	System            *string       `help:"Message of the system before the user's; with --chat." placeholder:"TEXT"`
	Tools             string        `help:"What the model may call: a JSON array of descriptions; with --chat." placeholder:"JSON"`
	TemplateKwargs    string        `help:"More variables for the chat template: a JSON object; with --chat." placeholder:"JSON"`
	SpecialTokens     bool          `help:"Special tokens in the text count; without this they are text."`
	MaxTokens         *int32        `help:"Most tokens to generate." placeholder:"N"`
	Temperature       *float64      `help:"Sampling temperature; 0 is greedy." placeholder:"T"`
	TopP              *float64      `help:"Sample from the likeliest tokens with this probability mass, 0 to 1." placeholder:"P"`
	TopK              *int32        `help:"Sample from this many likeliest tokens; 0 is all." placeholder:"K"`
	RepetitionPenalty *float64      `help:"Divide the logits of tokens that are there already by this; 1 is off." placeholder:"R"`
	Seed              *uint32       `help:"Seed of the sampling; the same seed gives the same answer." placeholder:"N"`
	Stop              []string      `sep:"none" help:"Stop before this text; may be given several times." placeholder:"TEXT"`
	StopTokenID       []uint32      `help:"Stop at this token; may be given several times." placeholder:"ID"`
	IgnoreEOS         bool          `name:"ignore-eos" help:"Go on after the token that ends a text."`
	Logprobs          *int32        `help:"Report each token's log-probability and this many best ones; with --json." placeholder:"N"`
	JSON              bool          `name:"json" help:"Print one JSON chunk a line."`
	Stats             bool          `help:"Tell on stderr how it ended, how long it took and the seed, as on a terminal."`
	Brownout          string        `env:"-" help:"Whether other experts may stand in for some in a brownout: allow or never; without it as the deployment has it." placeholder:"WORD"`
	Deadline          time.Duration `help:"End the request this time after it is sent, such as 30s; 0 is never. It is sent as a time of this machine's clock and judged by the NATS servers'; some seconds later the client stops waiting." placeholder:"TIME"`
	RequestID         string        `help:"Name of the request; the same id again streams the same answer." placeholder:"ID"`
	cli.ConnectFlags  `embed:""`
}

// maxStdin bounds what is read from stdin, in bytes; no server takes more in one message.
const maxStdin = 64 << 20

// Run streams the answer to stdout as it comes. A signal cancels the request.
func (c *PromptCmd) Run(ctx context.Context, e *cli.Env) error {
	prompt, err := c.prompt(ctx, e)
	if err != nil {
		return err
	}
	conn, err := e.Connect(ctx, "prompt", c.ConnectFlags)
	if err != nil {
		return err
	}
	defer conn.Close()
	asking, cancel := c.bounded(ctx, prompt, e.Waits)
	defer cancel()
	defer cli.TellOutages(e, conn, c.ConnectTimeout)()
	line := e.Progress()
	line.Set("waiting for the first token…")
	defer line.Clear()
	producer := client.New(conn.NATS(), client.Settings{
		Prefix: e.Prefix, Model: c.Model, Tenant: c.Tenant, Class: schemas.Class(c.Class), Away: c.ConnectTimeout,
	})
	stream, err := producer.Prompt(asking, prompt)
	if err != nil {
		return err
	}
	return c.stream(stream, cancel, e, line)
}

// deadlineGrace is how much longer than the deadline this command waits for the servers' own
// word of it. That comes within a second, or is asked for two seconds after it was lost.
const deadlineGrace = 5 * time.Second

// bounded gives a prompt that is about to be sent its deadline, and ends the wait by this
// machine's clock, whatever the servers' says.
func (c *PromptCmd) bounded(ctx context.Context, p *pb.Prompt, w cli.Waits) (context.Context, context.CancelFunc) {
	if c.Deadline == 0 {
		return context.WithCancel(ctx)
	}
	deadline := time.Now().Add(c.Deadline)
	p.Deadline = deadline.Format(time.RFC3339Nano)
	return w.Until(ctx, deadline.Add(deadlineGrace), fmt.Errorf(
		"nothing has ended it within --deadline %v and %v more by this machine's clock; compare that with the NATS servers'", c.Deadline, deadlineGrace))
}

// prompt returns what the flags, the arguments and stdin ask for.
func (c *PromptCmd) prompt(ctx context.Context, e *cli.Env) (*pb.Prompt, error) {
	if err := c.check(); err != nil {
		return nil, cli.Usage(err)
	}
	p := &pb.Prompt{
		RequestId: c.RequestID, InputIds: c.IDs, MaxTokens: c.MaxTokens, Temperature: c.Temperature, TopP: c.TopP, TopK: c.TopK,
		RepetitionPenalty: c.RepetitionPenalty, Seed: c.Seed, Stop: c.Stop, StopTokenIds: c.StopTokenID, IgnoreEos: c.IgnoreEOS,
		Logprobs: c.Logprobs, Brownout: c.Brownout, Tools: c.Tools, ChatTemplateKwargs: c.TemplateKwargs, SpecialTokens: c.SpecialTokens,
	}
	if len(c.IDs) > 0 {
		return p, nil
	}
	text, err := c.text(ctx, e)
	if err != nil {
		return nil, err
	}
	if !c.Chat {
		p.Text = text
		return p, nil
	}
	if c.System != nil {
		p.Messages = append(p.Messages, &pb.ChatMessage{Role: "system", Content: c.System})
	}
	p.Messages = append(p.Messages, &pb.ChatMessage{Role: "user", Content: &text})
	return p, nil
}

// check refuses flags that do not go together.
func (c *PromptCmd) check() error {
	switch {
	case len(c.IDs) > 0 && (len(c.Text) > 0 || c.Chat):
		return errors.New("--ids takes the place of a text: give one of them, and no --chat")
	case c.System != nil && !c.Chat:
		return errors.New("--system needs --chat")
	case (c.Tools != "" || c.TemplateKwargs != "") && !c.Chat:
		return errors.New("--tools and --template-kwargs need --chat")
	case c.Logprobs != nil && !c.JSON:
		return errors.New("--logprobs needs --json, which shows them")
	case c.Brownout != "" && c.Brownout != "allow" && c.Brownout != "never":
		return fmt.Errorf("--brownout is %.40q; it must be allow (other experts may stand in for some) or never", c.Brownout)
	case c.Deadline < 0:
		return fmt.Errorf("--deadline is %v; it must be a time to come, or 0 for never", c.Deadline)
	}
	if err := (schemas.Flow{Tenant: c.Tenant, Class: schemas.Class(c.Class)}).OrDefault().Check(); err != nil {
		return fmt.Errorf("--tenant or --class: %w", err)
	}
	return nil
}

// text returns the prompt from the arguments or from stdin.
func (c *PromptCmd) text(ctx context.Context, e *cli.Env) (string, error) {
	if len(c.Text) > 0 {
		return strings.Join(c.Text, " "), nil
	}
	if terminal.Is(e.In) {
		return "", cli.Usage(errors.New("no prompt: give it as an argument, such as switchyard prompt 'Once upon a time', or on stdin"))
	}
	var read string
	if err := cli.UntilSignal(ctx, func() (err error) { read, err = readPrompt(e.In); return err }); err != nil {
		return "", err
	}
	return read, nil
}

// readPrompt reads a prompt to its end.
func readPrompt(in io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxStdin+1))
	switch {
	case err != nil:
		return "", cli.Usage(fmt.Errorf("reading the prompt from stdin: %w", err))
	case len(data) > maxStdin:
		return "", cli.Usage(fmt.Errorf("the prompt on stdin has more than %d bytes", maxStdin))
	case len(data) == 0:
		return "", cli.Usage(errors.New("the prompt on stdin is empty"))
	}
	if at := cli.FirstInvalid(string(data)); at >= 0 {
		return "", cli.Usage(fmt.Errorf("the prompt on stdin is not UTF-8: byte %d is invalid", at))
	}
	return string(data), nil
}

// stream prints the chunks. When they cannot be printed the request is
// cancelled: nobody reads it, and nobody needs to know how it ends.
func (c *PromptCmd) stream(s *client.Stream, cancel context.CancelFunc, e *cli.Env, line *terminal.Progress) (err error) {
	out := &chunkPrinter{w: e.Out, json: c.JSON}
	var last *pb.Chunk
	for chunk, streamErr := range s.Chunks() {
		line.Clear()
		switch {
		case out.broken != nil:
		case streamErr != nil:
			err = streamErr
		default:
			if out.print(chunk); out.broken != nil {
				cancel()
			} else if chunk.FinishReason != "" {
				last, err = chunk, client.Failure(chunk)
			}
		}
	}
	out.finish()
	if last != nil && (c.Stats || terminal.Is(e.Err)) {
		e.Say(statistics(last)+"\n", "answered", measures(last)...)
	}
	return errors.Join(err, out.broken)
}

// statistics says how a request went, and how to ask the same again.
func statistics(last *pb.Chunk) string {
	return fmt.Sprintf("%s, seed %d, request %s", pace(last), last.Seed, last.RequestId)
}

// measures returns what statistics says, one by one.
func measures(last *pb.Chunk) []any {
	u, t := last.GetUsage(), last.GetTimings()
	return []any{
		"finish_reason", last.FinishReason, "completion_tokens", u.GetCompletionTokens(), "prompt_tokens", u.GetPromptTokens(),
		"queue_seconds", t.GetQueue(), "ttft_seconds", t.GetTtft(), "total_seconds", t.GetTotal(), "seed", last.Seed, "request_id", last.RequestId,
	}
}

// pace says how a request ended and how fast it was.
func pace(last *pb.Chunk) string {
	u, t := last.GetUsage(), last.GetTimings()
	text := fmt.Sprintf("%s after %d tokens (prompt %d): first token in %.0f ms", last.FinishReason, u.GetCompletionTokens(), u.GetPromptTokens(), 1000*t.GetTtft())
	if took := t.GetTotal() - t.GetTtft(); took > 0 && u.GetCompletionTokens() > 1 {
		text += fmt.Sprintf(", %.0f tokens/s", float64(u.GetCompletionTokens()-1)/took)
	}
	return text
}
