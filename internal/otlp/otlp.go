// Package otlp exports what a bridge does by OpenTelemetry's protocol: spans of messages,
// and the metrics of package metrics. What the configuration leaves open is as the
// variables say that are standard for OpenTelemetry's SDKs.
package otlp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/delaybridge/delaybridge/core"
)

// Target says whether something is exported, and where to.
type Target struct {
	// Enabled is nil if the environment decides: OTEL_TRACES_EXPORTER or
	// OTEL_METRICS_EXPORTER is otlp, and OTEL_SDK_DISABLED is not true.
	Enabled *bool
	// Endpoint is a URL. Empty is OTEL_EXPORTER_OTLP_ENDPOINT, or a collector on this
	// machine.
	Endpoint string
	// Protocol is GRPC or HTTP. Empty is OTEL_EXPORTER_OTLP_PROTOCOL, or HTTP.
	Protocol string
}

// The protocols.
const (
	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// Types are the types of sinks and sources, by their names in the configuration.
type Types struct{ Sinks, Sources map[string]string }

// signal is what a Target is for, as it is called in variables and in paths of URLs.
type signal string

const (
	signalTraces  signal = "TRACES"
	signalMetrics signal = "METRICS"
)

func (s signal) enabled(t Target) bool {
	if t.Enabled != nil {
		return *t.Enabled
	}
	return !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") &&
		slices.Contains(strings.Split(os.Getenv("OTEL_"+string(s)+"_EXPORTER"), ","), "otlp")
}

func (s signal) protocol(t Target) (string, error) {
	variable := "OTEL_EXPORTER_OTLP_" + string(s) + "_PROTOCOL"
	if os.Getenv(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	switch protocol := cmp.Or(t.Protocol, os.Getenv(variable), HTTP); protocol {
	case GRPC, HTTP:
		return protocol, nil
	default:
		return "", fmt.Errorf("%s: protocol %q is not supported; set %s or %s", variable, protocol, GRPC, HTTP)
	}
}

// urlOf is the URL for HTTP: a path that is given is kept.
func (s signal) urlOf(t Target) string {
	u, err := url.Parse(t.Endpoint)
	if err == nil && strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/" + strings.ToLower(string(s))
		return u.String()
	}
	return t.Endpoint
}

// newResource describes this instance; what the environment says comes first.
func newResource(ctx context.Context, version, instance string) (*resource.Resource, error) {
	r, err := resource.New(ctx, resource.WithHost(), resource.WithTelemetrySDK(), resource.WithSchemaURL(semconv.SchemaURL),
		resource.WithAttributes(semconv.ServiceName("delaybridge"), semconv.ServiceVersion(version), semconv.ServiceInstanceID(instance)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return r, nil
}

// LogLibrary has OpenTelemetry's library, which has one logger for all, log to log.
func LogLibrary(log *slog.Logger) {
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	var summary core.LogSummary
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if summary.First(log, "export of telemetry", "", "") {
			log.Warn("export of telemetry", "err", core.Shorten(err.Error(), core.MaxErrorText))
		}
	}))
}
