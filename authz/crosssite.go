package authz

import (
	"fmt"
	"net/http"
)

// CrossSite tells requests that a browser sends for a page of another site
// from all others, by the rule of [http.CrossOriginProtection]: the browser
// says same-origin or none in Sec-Fetch-Site; or it says nothing there, and
// Origin is absent or names this host; or Origin is one of those allowed. A
// page of the same site but another origin is another site.
type CrossSite struct {
	protection *http.CrossOriginProtection
	allowed    Origins
}

// NewCrossSite returns a check that lets the listed origins in. Its error is
// that of [ParseOrigins].
func NewCrossSite(origins []string) (*CrossSite, error) {
	allowed, err := ParseOrigins(origins)
	if err != nil {
		return nil, err
	}
	return &CrossSite{protection: http.NewCrossOriginProtection(), allowed: allowed}, nil
}

// Check returns an error that wraps [ErrCrossSite] if r comes from another
// site, whatever its method: a GET can start a run, so none is safe here.
func (c *CrossSite) Check(r *http.Request) error {
	if len(r.Header["Origin"]) > 1 || len(r.Header["Sec-Fetch-Site"]) > 1 {
		return fmt.Errorf("%w: its site is named twice", ErrCrossSite) // no browser does
	}
	origin := r.Header.Get("Origin")
	if c.allowed.Allow(origin) {
		return nil
	}
	if r.Host == "" && origin != "" && r.Header.Get("Sec-Fetch-Site") == "" {
		// The protection would find that "null", which has no host either, is ours.
		return fmt.Errorf("%w: no Host to compare its Origin with", ErrCrossSite)
	}
	write := r.WithContext(r.Context()) // a shallow copy
	write.Method = http.MethodPost
	if err := c.protection.Check(write); err != nil {
		return fmt.Errorf("%w: %w", ErrCrossSite, err)
	}
	return nil
}
