//go:build unix && !linux

package main

import "net/http"

func (r *run) reachSides() http.RoundTripper {
	r.Skipf("network namespaces are Linux's")
	return nil
}
