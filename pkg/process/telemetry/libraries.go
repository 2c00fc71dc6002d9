package telemetry

import (
	"log/slog"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// LogLibraries has what libraries say on stderr by themselves come through log: those that
// use Go's own logs, such as net/http, and OpenTelemetry. It is of the whole process, and
// called once.
func LogLibraries(log *slog.Logger) {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	slog.SetDefault(log) // takes the package log over, too
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", "error", err) }))
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
}
