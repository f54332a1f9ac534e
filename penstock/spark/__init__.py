"""The Spark host: stateless work in Catalyst or Arrow, kernel operators in stateful tasks."""
