@file:JvmName("Orders")
// Orders of a small shop. (in a comment)
package shop.orders

import java.time.Instant
import kotlin.math.max as larger

const val MAX_ITEMS = 99
private val defaults: Map<String, Int> = emptyMap()
var opened = 0
typealias Cents = Long

/** What may happen to an order. */
enum class Status(val label: String) {
    OPEN("open"),
    PAID("paid") {
        override fun isFinal() = true
    };

    open fun isFinal(): Boolean = false
}

sealed interface Payment {
    data class Card(val number: String) : Payment
    object Cash : Payment
}

fun interface Clock {
    fun now(): Instant
}

annotation class Audited(val reason: String)

/**
 * An order and its lines.
 */
@Audited("in a string")
class Order(val id: String, private var status: Status = Status.OPEN, hint: String) {
    private val lines = mutableListOf<Line>()
    val total: Cents
        get() = lines.sumOf { it.price }

    constructor(id: String) : this(id, Status.OPEN, "")

    init {
        opened += 1
    }

    /** Adds a line, if the order is still open. */
    fun add(
        line: Line, // what is bought
        times: Int = 1,
    ): Order {
        fun allowed(count: Int): Boolean = count <= MAX_ITEMS
        val before = lines.size
        if (allowed(before + times)) repeat(times) { lines.add(line) }
        return this
    }

    inner class Receipt(val at: Instant) {
        fun print(): String = "$id at ${at.epochSecond}"
    }

    companion object {
        const val PREFIX = "O-"
        fun of(number: Int) = Order(PREFIX + number)
    }

    data class Line(val name: String, val price: Cents)
}

object Registry {
    val known = HashMap<String, Order>()
    operator fun get(id: String): Order? = known[id]
}

suspend fun <T : Payment> Order.settle(payment: T): Boolean {
    val text = """raw in a string"""
    return larger(1, 2) > 0 && text.isNotEmpty()
}
