// pause.go owns waiting that ends early when its reason goes away. It must not know what
// is waited for.

package main

import (
	"context"
	"time"
)

// pause waits for d, or for ctx to end, whose error it then returns.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
