package responses

import (
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/openai"
)

// Statuses of a response.
const (
	Queued     = "queued"
	InProgress = "in_progress"
	Completed  = "completed"
	Incomplete = "incomplete"
	Cancelled  = "cancelled"
	Failed     = "failed"
)

// Object is a response as clients read it.
type Object struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	CreatedAt         int64        `json:"created_at"`
	Status            string       `json:"status"`
	Error             *problem     `json:"error"`
	IncompleteDetails *why         `json:"incomplete_details"`
	Model             string       `json:"model"`
	Output            []outputItem `json:"output"`
	Usage             *usage       `json:"usage"`
	Shown
	PreviousResponseID *string   `json:"previous_response_id"`
	Reasoning          reasoning `json:"reasoning"`
	Text               textForm  `json:"text"`
	Truncation         string    `json:"truncation"`
	ServiceTier        string    `json:"service_tier"`
	Fingerprint        string    `json:"system_fingerprint,omitempty"`
}

type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type why struct {
	Reason string `json:"reason"`
}

type reasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

type textForm struct {
	Format struct {
		Type string `json:"type"`
	} `json:"format"`
}

type usage struct {
	InputTokens   int32          `json:"input_tokens"`
	InputDetails  map[string]int `json:"input_tokens_details"`
	OutputTokens  int32          `json:"output_tokens"`
	OutputDetails map[string]int `json:"output_tokens_details"`
	TotalTokens   int32          `json:"total_tokens"`
	openai.Extra
}

// Response gathers an answer.
type Response struct {
	id, model, fingerprint string
	created                int64
	shown                  Shown

	status string
	items  []*item
	next   int32 // the number of the next event
	failed *openai.Error
	usage  *pb.Usage
}

// New returns a response to which nothing has come yet.
func New(id, model, fingerprint string, created int64, shown Shown) *Response {
	return &Response{id: id, model: model, fingerprint: fingerprint, created: created, shown: shown, status: Queued}
}

// Ended reports whether nothing more comes.
func (r *Response) Ended() bool { return r.status != Queued && r.status != InProgress }

// Push takes a chunk in.
func (r *Response) Push(c *pb.Chunk) {
	r.Told(c)
	if r.Ended() {
		r.End()
	}
}

// count takes what a chunk says of the whole.
func (r *Response) count(c *pb.Chunk) {
	r.status = InProgress
	if c.Usage != nil {
		r.usage = c.Usage
	}
	switch c.FinishReason {
	case "stop":
		r.status = Completed
	case "length":
		r.status = Incomplete
	}
}

// Fail ends it with an error.
func (r *Response) Fail(e *openai.Error) {
	r.status, r.failed = Failed, e
	if n := len(r.items); n > 0 && r.items[n-1].status == InProgress {
		r.items[n-1].status = Incomplete
	}
	if e.Code == "cancelled" {
		r.status, r.failed = Cancelled, nil
	}
}

// Object returns the response as it is now.
func (r *Response) Object() *Object {
	o := &Object{
		ID: r.id, Object: "response", CreatedAt: r.created, Status: r.status, Model: r.model, Output: []outputItem{}, Shown: r.shown,
		Truncation: "disabled", ServiceTier: "default", Fingerprint: r.fingerprint,
	}
	o.Text.Format.Type = "text"
	for _, it := range r.items {
		o.Output = append(o.Output, it.shown())
	}
	if r.status == Incomplete {
		o.IncompleteDetails = &why{"max_output_tokens"}
	}
	if r.failed != nil {
		o.Error = &problem{"server_error", r.failed.Code + ": " + r.failed.Message}
	}
	if u := r.usage; u != nil {
		o.Usage = &usage{
			InputTokens: u.PromptTokens, InputDetails: map[string]int{"cached_tokens": int(u.GetCachedTokens())}, OutputTokens: u.CompletionTokens,
			OutputDetails: map[string]int{"reasoning_tokens": int(u.GetReasoningTokens())}, TotalTokens: u.PromptTokens + u.CompletionTokens,
		}
		o.Usage.Add(u)
	}
	return o
}
