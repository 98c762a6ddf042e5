// go-redis and rueidis. The argument says which. README.md says what is read and printed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

type scenario struct {
	Commands, Pipeline, Prepare, Operations [][]string
	Transaction, Scan                       string
	PauseMs                                 int `json:"pause_ms"`
}

// A client. A nil reply is none, an error of the server is refused.
type client struct {
	call        func(command []string) (any, error)
	pipeline    func(commands [][]string) ([]any, error)
	transaction func(key string) ([]any, error)
	watched     func(key string) ([]any, error)
	scan        func(pattern string) (int, error)
	isRefusal   func(err error) bool
}

var ctx = context.Background()

func say(words ...any) { fmt.Println(words...) }

func flat(reply any) string {
	switch value := reply.(type) {
	case nil:
		return "nil"
	case []any:
		words := []string{}
		for _, item := range value {
			words = append(words, flat(item))
		}
		return strings.Join(words, " ")
	case map[any]any:
		words := []string{}
		for key, item := range value {
			words = append(words, flat(key)+" "+flat(item))
		}
		sort.Strings(words)
		return strings.Join(words, " ")
	case rueidis.RedisMessage:
		if value.IsNil() {
			return "nil"
		}
		if items, err := value.ToArray(); err == nil {
			words := []string{}
			for _, item := range items {
				words = append(words, flat(item))
			}
			return strings.Join(words, " ")
		}
		if items, err := value.AsStrMap(); err == nil {
			words := []string{}
			for key, item := range items {
				words = append(words, key+" "+item)
			}
			return strings.Join(words, " ")
		}
		if number, err := value.AsInt64(); err == nil {
			return strconv.FormatInt(number, 10)
		}
		if number, err := value.AsFloat64(); err == nil {
			return strconv.FormatFloat(number, 'f', -1, 64)
		}
		text, _ := value.ToString()
		return text
	}
	return fmt.Sprint(reply)
}

func anys(words []string) []any {
	out := make([]any, len(words))
	for i, word := range words {
		out[i] = word
	}
	return out
}

func goRedis(nodes []string) client {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes})
	values := func(cmds []redis.Cmder) []any {
		out := []any{}
		for _, cmd := range cmds {
			switch cmd := cmd.(type) {
			case *redis.Cmd:
				out = append(out, cmd.Val())
			case *redis.StatusCmd:
				out = append(out, cmd.Val())
			case *redis.IntCmd:
				out = append(out, cmd.Val())
			}
		}
		return out
	}
	twice := func(key, value string) func(redis.Pipeliner) error {
		return func(p redis.Pipeliner) error {
			p.Set(ctx, key, value, 0)
			p.Incr(ctx, key)
			return nil
		}
	}
	return client{
		call: func(command []string) (any, error) {
			reply, err := c.Do(ctx, anys(command)...).Result()
			if errors.Is(err, redis.Nil) {
				return nil, nil
			}
			return reply, err
		},
		pipeline: func(commands [][]string) ([]any, error) {
			cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, command := range commands {
					p.Do(ctx, anys(command)...)
				}
				return nil
			})
			return values(cmds), err
		},
		transaction: func(key string) ([]any, error) {
			cmds, err := c.TxPipelined(ctx, twice(key, "1"))
			return values(cmds), err
		},
		watched: func(key string) ([]any, error) {
			err := c.Watch(ctx, func(tx *redis.Tx) error {
				c.Set(ctx, key, "meanwhile", 0)
				_, err := tx.TxPipelined(ctx, twice(key, "5"))
				return err
			}, key)
			if errors.Is(err, redis.TxFailedErr) {
				return nil, nil
			}
			return []any{"done"}, err
		},
		scan: func(pattern string) (int, error) {
			var lock sync.Mutex
			found := map[string]bool{}
			err := c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
				names := node.Scan(ctx, 0, pattern, 20).Iterator()
				for names.Next(ctx) {
					lock.Lock()
					found[names.Val()] = true
					lock.Unlock()
				}
				return names.Err()
			})
			return len(found), err
		},
		isRefusal: func(err error) bool {
			var refusal redis.Error
			return errors.As(err, &refusal)
		},
	}
}

func rueidisClient(nodes []string) client {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: nodes})
	if err != nil {
		say("failed", err)
		os.Exit(1)
	}
	build := func(command []string) rueidis.Completed {
		return c.B().Arbitrary(command[0]).Keys(command[1]).Args(command[2:]...).Build()
	}
	replies := func(results []rueidis.RedisResult) ([]any, error) {
		out := []any{}
		for _, result := range results {
			message, err := result.ToMessage()
			if err != nil {
				return nil, err
			}
			out = append(out, message)
		}
		return out, nil
	}
	onOne := func(key, value string, watch bool) (out []any, err error) {
		err = c.Dedicated(func(d rueidis.DedicatedClient) error {
			if watch {
				if err := d.Do(ctx, d.B().Watch().Key(key).Build()).Error(); err != nil {
					return err
				}
				c.Do(ctx, c.B().Set().Key(key).Value("meanwhile").Build())
			}
			results := d.DoMulti(ctx, d.B().Multi().Build(), d.B().Set().Key(key).Value(value).Build(),
				d.B().Incr().Key(key).Build(), d.B().Exec().Build())
			message, err := results[3].ToMessage()
			if rueidis.IsRedisNil(err) {
				return nil
			}
			out = []any{message}
			return err
		})
		return out, err
	}
	return client{
		call: func(command []string) (any, error) {
			message, err := c.Do(ctx, build(command)).ToMessage()
			if rueidis.IsRedisNil(err) {
				return nil, nil
			}
			return message, err
		},
		pipeline: func(commands [][]string) ([]any, error) {
			built := []rueidis.Completed{}
			for _, command := range commands {
				built = append(built, build(command))
			}
			return replies(c.DoMulti(ctx, built...))
		},
		transaction: func(key string) ([]any, error) { return onOne(key, "1", false) },
		watched:     func(key string) ([]any, error) { return onOne(key, "5", true) },
		scan: func(pattern string) (int, error) {
			found := map[string]bool{}
			for _, node := range c.Nodes() {
				for cursor := uint64(0); ; {
					page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(20).Build()).AsScanEntry()
					if err != nil {
						return 0, err
					}
					for _, name := range page.Elements {
						found[name] = true
					}
					if cursor = page.Cursor; cursor == 0 {
						break
					}
				}
			}
			return len(found), nil
		},
		isRefusal: func(err error) bool {
			_, ok := rueidis.IsRedisErr(err)
			return ok
		},
	}
}

func checks(c client, s scenario) {
	for number, command := range s.Commands {
		if command[0] == "SLEEP" {
			ms, _ := strconv.Atoi(command[1])
			time.Sleep(time.Duration(ms) * time.Millisecond)
			continue
		}
		reply, err := c.call(command)
		if err != nil {
			reply = err
		}
		say("reply", number, flat(reply))
	}
	show := func(what string, replies []any, err error) {
		switch {
		case err != nil:
			say(what, err)
		case replies == nil:
			say(what, "nil")
		default:
			say(what, flat(replies))
		}
	}
	replies, err := c.pipeline(s.Pipeline)
	show("piped", replies, err)
	replies, err = c.transaction(s.Transaction)
	show("transaction", replies, err)
	replies, err = c.watched(s.Transaction)
	show("watched", replies, err)
	count, err := c.scan(s.Scan)
	show("scanned", []any{count}, err)
}

func main() {
	var s scenario
	text, _ := os.ReadFile(os.Getenv("SCENARIO"))
	if err := json.Unmarshal(text, &s); err != nil {
		panic(err)
	}
	nodes := strings.Split(os.Getenv("NODES"), ",")
	c, module := goRedis(nodes), "go-redis"
	if os.Args[1] == "rueidis" {
		c, module = rueidisClient(nodes), "rueidis"
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if strings.Contains(dep.Path, "/"+module) {
				say("version", dep.Version)
			}
		}
	}
	for _, command := range s.Prepare {
		if _, err := c.call(command); err != nil {
			say("failed", err)
			os.Exit(1)
		}
	}
	if os.Getenv("CHECKS") != "" {
		checks(c, s)
	}
	say("ready")
	seconds, _ := strconv.ParseFloat(os.Getenv("SECONDS"), 64)
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for number, command := range s.Operations {
		if time.Now().After(end) {
			break
		}
		began := time.Now()
		reply, err := c.call(command)
		outcome, text := "done", flat(reply)
		if err != nil {
			outcome, text = "unknown", strings.ReplaceAll(err.Error(), "\n", " ")
			if c.isRefusal(err) {
				outcome = "refused"
			}
		}
		say("op", number, outcome, time.Since(began).Milliseconds(), text)
		time.Sleep(time.Duration(s.PauseMs) * time.Millisecond)
	}
	say("end")
}
