package openai

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/request/client"
)

// Types of errors, as OpenAI names them.
const (
	InvalidRequest = "invalid_request_error"
	Authentication = "authentication_error"
	RateLimit      = "rate_limit_error"
	ServerError    = "server_error"
)

// statusClosed is what a request has whose client is gone; no client sees it.
const statusClosed = 499

// Error is why a request has no answer.
type Error struct {
	Status              int
	Type, Code, Message string
	// Param is the field that is wrong; empty: none.
	Param string
	// RetryAfter is when to ask again; 0: it does not help.
	RetryAfter time.Duration
	// Allow are the methods that a path has, of a refusal of another one.
	Allow string
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Bad refuses a field of a request.
func Bad(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: InvalidRequest, Code: client.CodeBadRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Unsupported refuses a field that would change the answer, and that is not served.
func Unsupported(param, why string) *Error {
	e := Bad(param, "%s is not supported: %s", param, why)
	e.Code = "unsupported_parameter"
	return e
}

// Fault returns what a client sees of an error of ours: nothing but the id under which the log has it.
func Fault(request string) *Error {
	return &Error{Status: http.StatusInternalServerError, Type: ServerError, Code: client.CodeInternal, Message: "the server has met a fault of its own, which its log has under request " + request}
}

// kinds are the statuses and types of codes.
var kinds = map[string]struct {
	status int
	kind   string
}{
	client.CodeBadRequest:       {http.StatusBadRequest, InvalidRequest},
	client.CodeBadPrompt:        {http.StatusBadRequest, InvalidRequest},
	client.CodePayloadTooLarge:  {http.StatusRequestEntityTooLarge, InvalidRequest},
	client.CodeModelNotFound:    {http.StatusNotFound, InvalidRequest},
	client.CodeModelNotReady:    {http.StatusServiceUnavailable, ServerError},
	client.CodeOverloaded:       {http.StatusTooManyRequests, RateLimit},
	client.CodeDeadlineExceeded: {http.StatusGatewayTimeout, ServerError},
	client.CodeCancelled:        {statusClosed, InvalidRequest},
	client.CodeInterrupted:      {http.StatusServiceUnavailable, ServerError},
	client.CodeInternal:         {http.StatusInternalServerError, ServerError},
}

const (
	// retrySoon is when to ask again where the services do not say, and mostRetry bounds what
	// they do.
	retrySoon, mostRetry = 2 * time.Second, time.Minute
)

// ErrorOf makes what came of a request an Error. context is the model's, in tokens; 0: unknown.
func ErrorOf(err error, context int) *Error { return ErrorFor(err, context, nil) }

// ErrorFor is ErrorOf a request whose route has own names for fields that the services name in their messages.
func ErrorFor(err error, context int, names map[string]string) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var of *client.Error
	if !errors.As(err, &of) {
		return Fault("")
	}
	kind, known := kinds[of.Code]
	if !known {
		kind = kinds[client.CodeInternal]
	}
	e := &Error{Status: kind.status, Type: kind.kind, Code: of.Code, Message: of.Message}
	e.name(names)
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		e.RetryAfter = min(max(of.RetryAfter, retrySoon), mostRetry)
	case http.StatusBadRequest:
		e.refine(context)
	case http.StatusNotFound:
		e.Param = "model"
	}
	return e
}

// refine tells apart what the services' codes do not.
func (e *Error) refine(context int) {
	switch {
	case strings.Contains(e.Message, "for another prompt; choose a new one"):
		e.Status, e.Code, e.Param = http.StatusUnprocessableEntity, "idempotency_conflict", ""
	case strings.Contains(e.Message, "the context holds"), strings.Contains(e.Message, "in a context of"):
		e.Code = "context_length_exceeded"
		if context > 0 {
			e.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However: %s", context, e.Message)
		}
	}
}

// params are fields of requests that the services' messages begin with, and what they are here.
var params = map[string]string{
	"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "repetition_penalty": "repetition_penalty", "logprobs": "logprobs", "max_tokens": "max_tokens",
	"stop": "stop", "stop_token_ids": "stop_token_ids", "input_ids": "prompt", "tools": "tools", "presence_penalty": "presence_penalty",
	"frequency_penalty": "frequency_penalty", "min_p": "min_p", "min_tokens": "min_tokens", "logit_bias": "logit_bias", "messages": "messages", "seed": "seed",
	"tool_choice": "tool_choice", "grammar": "response_format", "brownout": "brownout",
}

// name finds the field that the message begins with, and calls it what the route does.
func (e *Error) name(names map[string]string) {
	word, rest := e.Message, ""
	if end := strings.IndexAny(e.Message, " [.:"); end > 0 {
		word, rest = e.Message[:end], e.Message[end:]
	}
	if e.Param = params[word]; e.Param != "" && names[word] != "" {
		e.Param, e.Message = names[word], names[word]+rest
	}
}

// body is an Error as clients read it.
type body struct {
	Error content `json:"error"`
}

type content struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// Body returns what clients get of it.
func (e *Error) Body() any {
	c := content{Message: e.Message, Type: e.Type, Code: &e.Code}
	if e.Param != "" {
		c.Param = &e.Param
	}
	return body{c}
}

// header says when to ask again, if at all, and how.
func (e *Error) header(h http.Header) {
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="switchyard"`)
	}
	if e.Allow != "" {
		h.Set("Allow", e.Allow)
	}
	if e.Status == http.StatusGatewayTimeout {
		h.Set("X-Should-Retry", "false")
	}
}

// Refuse answers with an error, in the form that form makes of it; nil: OpenAI's.
func Refuse(w http.ResponseWriter, e *Error, form func(*Error) any) {
	e.header(w.Header())
	if form == nil {
		form = (*Error).Body
	}
	WriteJSON(w, e.Status, form(e))
}
