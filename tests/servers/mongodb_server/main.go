// A throw-away server of MongoDB's protocol on a loopback port: FerretDB over SQLite.
// Its address goes to standard output. Each line of standard input is a document for it: a
// collection, a tab, JSON. A line of standard output confirms it. The program ends with its input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/FerretDB/FerretDB/ferretdb"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Arguments: the folder of the databases, the database of the documents.
func main() {
	ctx := context.Background()
	errors := &slog.HandlerOptions{Level: slog.LevelError}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Handler:   "sqlite",
		SQLiteURL: "file:" + os.Args[1] + "/",
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, errors)),
	})
	must(err)
	go server.Run(ctx)
	client, err := mongo.Connect(ctx, options.Client().ApplyURI(server.MongoDBURI()))
	must(err)
	fmt.Println(server.MongoDBURI())
	insert(ctx, client.Database(os.Args[2]))
}

func insert(ctx context.Context, database *mongo.Database) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		collection, text, _ := strings.Cut(lines.Text(), "\t")
		var document bson.D
		must(bson.UnmarshalExtJSON([]byte(text), false, &document))
		_, err := database.Collection(collection).InsertOne(ctx, document)
		must(err)
		fmt.Println("inserted")
	}
}
