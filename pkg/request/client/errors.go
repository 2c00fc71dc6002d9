package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Codes of errors. All but the last come from the server, too.
const (
	CodeBadRequest       = "bad_request"
	CodeBadPrompt        = "bad_prompt"
	CodePayloadTooLarge  = "payload_too_large"
	CodeModelNotFound    = "model_not_found"
	CodeModelNotReady    = "model_not_ready"
	CodeOverloaded       = "overloaded"
	CodeDeadlineExceeded = "deadline_exceeded"
	CodeCancelled        = "cancelled"
	CodeInternal         = "internal"
	// CodeInterrupted is the client's own: it lost the server. The request may
	// go on; Resume continues the stream.
	CodeInterrupted = "interrupted"
)

var codes = []string{
	CodeBadRequest, CodeBadPrompt, CodePayloadTooLarge, CodeModelNotFound, CodeModelNotReady,
	CodeOverloaded, CodeDeadlineExceeded, CodeCancelled, CodeInternal,
}

// Error is why a request has no full answer.
type Error struct {
	Code    string
	Message string
	// RetryAfter is how long to wait before trying again; with CodeOverloaded.
	RetryAfter time.Duration
	// Cause is what the client saw, if anything.
	Cause error
}

func (e *Error) Error() string {
	text := e.Code + ": " + e.Message
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Cause }

// Failure returns the error of a terminal chunk as an *Error; nil if the
// answer is whole.
func Failure(c *pb.Chunk) error {
	switch {
	case c.GetError() != nil:
		return &Error{Code: c.Error.Code, Message: c.Error.Message, RetryAfter: retryAfter(c.Error.RetryAfter)}
	case c.GetFinishReason() == "cancelled":
		return &Error{Code: CodeCancelled, Message: "the request was cancelled"}
	case c.GetFinishReason() == "error":
		return &Error{Code: CodeInternal, Message: "the server ended the request with an error that it did not name"}
	}
	return nil
}

// maxRetryAfter bounds what a server may say, so that it is a time whatever it says.
const maxRetryAfter = time.Hour

func retryAfter(seconds float64) time.Duration {
	if !(seconds > 0) { // so that NaN is no time
		return 0
	}
	return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
}

// outage returns the error of a connection that has been broken for too long.
func outage(lost time.Time, before string, cause error) *Error {
	return &Error{Code: CodeInterrupted, Cause: cause, Message: fmt.Sprintf(
		"NATS has been away for %v before %s", time.Since(lost).Round(100*time.Millisecond), before)}
}

func tooLarge(size, limit int64) *Error {
	return &Error{Code: CodePayloadTooLarge, Message: fmt.Sprintf(
		"the prompt's message has %d bytes and the server takes at most %d; shorten the prompt, or raise max_payload on the server",
		size, limit)}
}

// streamFull is JetStream's error code for a stream that refuses new messages
// because of its size; nats.go has no name for these.
var streamFull = []jetstream.ErrorCode{10077, 10023, 10047}

// messageTooLarge is JetStream's error code for a message that is larger than its stream takes.
const messageTooLarge jetstream.ErrorCode = 10054

// mayPass reports whether publishing again may help: the message or its
// acknowledgement got lost. An answer of the server is final, and so is that
// nobody listens; nats.go has asked twice by then.
func mayPass(err error) bool {
	var api *jetstream.APIError
	return !errors.As(err, &api) && !errors.Is(err, jetstream.ErrNoStreamResponse) &&
		!errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, nats.ErrConnectionClosed) &&
		!errors.Is(err, nats.ErrMaxPayload)
}

// withoutUser returns a server's URL for people: a token stands where a user's name does.
func withoutUser(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return "the server"
	}
	u.User = nil
	return u.String()
}

// acceptError makes a typed error of why a prompt was not accepted.
func acceptError(err error, model, server string) *Error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return &Error{Code: CodeModelNotFound, Message: fmt.Sprintf(
			"no replica serves model %q at %s; check --model, or start it with `switchyard up`", model, server)}
	case errors.As(err, &api):
		return apiError(api, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrTimeout):
		return &Error{Code: CodeInterrupted, Cause: err,
			Message: "the server did not acknowledge the prompt; sending it again under the same request_id is safe"}
	}
	return &Error{Code: CodeInternal, Message: "publishing the prompt", Cause: err}
}

// apiError reads an answer to a publish that is not an acceptance: JetStream's
// own, or one of Switchyard's as "code: message".
func apiError(api *jetstream.APIError, err error) *Error {
	if code, message, ok := strings.Cut(api.Description, ": "); ok && slices.Contains(codes, code) {
		return &Error{Code: code, Message: message}
	}
	if slices.Contains(streamFull, api.ErrorCode) {
		return &Error{Code: CodeOverloaded, RetryAfter: time.Second, Cause: err,
			Message: "the queue of prompts is full; try again later"}
	}
	if api.ErrorCode == messageTooLarge {
		return &Error{Code: CodePayloadTooLarge, Cause: err, Message: "the prompt's message is larger than any that fits the model's context; shorten it"}
	}
	return &Error{Code: CodeInternal, Message: "the server refused the prompt", Cause: err}
}

// forbidden is why nothing will ever come of publishing to a subject; nil: the server
// has not said so. What a user has no right for is not answered, so it looks like
// silence, and the connection's last error is all that tells.
func (c *Client) forbidden(subject string) error {
	err := c.nc.LastError()
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	inbox := cmp.Or(c.nc.Opts.InboxPrefix, strings.TrimSuffix(nats.InboxPrefix, "."))
	switch text := err.Error(); {
	case strings.Contains(text, `"`+subject+`"`):
		return &Error{Code: CodeBadRequest, Cause: err, Message: fmt.Sprintf(
			"this user may not publish to %s: log in as a producer of that model and tenant, or name the ones that this user is for", subject)}
	case strings.Contains(text, `"`+inbox+"."):
		return &Error{Code: CodeBadRequest, Cause: err, Message: fmt.Sprintf(
			"this user may not read inboxes below %s: set the inbox prefix that belongs to the user", inbox)}
	}
	return nil
}
