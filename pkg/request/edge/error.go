package edge

import (
	"errors"
	"fmt"
	"strings"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Code is a typed error's code.
type Code string

// The codes that producers see.
const (
	BadRequest       Code = "bad_request"
	BadPrompt        Code = "bad_prompt"
	PayloadTooLarge  Code = "payload_too_large"
	ModelNotFound    Code = "model_not_found"
	ModelNotReady    Code = "model_not_ready"
	Overloaded       Code = "overloaded"
	DeadlineExceeded Code = "deadline_exceeded"
	Cancelled        Code = "cancelled"
	Internal         Code = "internal"
)

// Error is an error that a producer gets.
type Error struct {
	Code       Code
	Message    string
	RetryAfter time.Duration
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// maxMessage bounds a message in bytes: it may quote what a producer sent, and
// has to fit into a header.
const maxMessage = 1024

// Errorf makes a typed error.
func Errorf(code Code, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return &Error{Code: code, Message: message}
}

// Fault is what producers are told of an error of ours that may name files or servers: the log has it.
const Fault = "the service has met a fault of its own, which its log has under the request's id"

// Proto returns the error as a message; an error without a code is internal.
func Proto(err error) *pb.Error {
	var e *Error
	if !errors.As(err, &e) {
		return &pb.Error{Code: string(Internal), Message: Fault}
	}
	return &pb.Error{Code: string(e.Code), Message: e.Message, RetryAfter: e.RetryAfter.Seconds()}
}

// Refusal returns the chunk that ends a request which was never begun.
func Refusal(request string, err error) *pb.Chunk {
	return &pb.Chunk{
		RequestId: request, Index: -1, FinishReason: "error", Error: Proto(err),
		Usage: &pb.Usage{}, Timings: &pb.Timings{},
	}
}
