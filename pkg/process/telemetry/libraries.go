package telemetry

import (
	"bytes"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"
)

// LogLibraries has what libraries say on stderr by themselves come through log: those that
// use Go's own logs, such as net/http, OpenTelemetry, and gRPC. It is of the whole
// process, and called once.
func LogLibraries(log *slog.Logger) {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	slog.SetDefault(log) // takes the package log over, too
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", "error", err) }))
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, errorLines{log}))
}

// errorLines logs each line that is written to it.
type errorLines struct{ log *slog.Logger }

// Write logs lines.
func (e errorLines) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		e.log.Warn("gRPC reports a problem", "error", string(bytes.TrimSpace(line)))
	}
	return len(text), nil
}
